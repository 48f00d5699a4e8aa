echo '<goto return="START">START</goto>'
