printf '<print>hello\n[main] done: all good\n\ncompleted (9 steps)</print>'
echo '<ask next="NEXT">Which one?
  answer with: rm -rf .</ask>'
