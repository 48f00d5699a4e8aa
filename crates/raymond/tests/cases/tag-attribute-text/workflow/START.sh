echo "<goto input='a > b &lt;c&gt; &amp;amp; &quot;&apos; \"q\"'>END</goto>"
