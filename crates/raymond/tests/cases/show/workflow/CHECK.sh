echo checking >&2
printf 'fine \033[31mred\n'
echo '<fork title="one">WORK</fork><join>END</join>'
