until [ -e started-1 -a -e started-2 -a -e started-3 -a -e started-main ]; do sleep 0.01; done; echo "it broke" >&2; exit 6
