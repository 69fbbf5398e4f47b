# Answers --help for the script that reads this, with the comment at the top of that script:
#
#   source "$(dirname "$0")/../parts/help.bash" "$@"
for word in "$@"; do
  if [ "$word" = --help ]; then
    sed -n '2,${/^#/!q; s/^# \{0,1\}//p}' "$0"
    exit 0
  fi
done
