# Every function that the library has does what it promises.
source library.sh

check() {
  declare -F "$1" > /dev/null || return 0
  got=$("$1" "$2")
  [[ "$got" == "$3" ]] || { echo "$1 '$2' prints '$got', not '$3'"; exit 1; }
}
check upper 'a b' 'A B'
check words 'one two  three' 3
check twice 'ab' 'abab'
