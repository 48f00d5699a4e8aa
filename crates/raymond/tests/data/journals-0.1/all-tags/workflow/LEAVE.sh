echo "<reset-workflow input='over'>../other</reset-workflow>"
