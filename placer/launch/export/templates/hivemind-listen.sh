kind() { case "$1" in *:*) echo ip6 ;; *[!0-9.]*) echo dns4 ;; *) echo ip4 ;; esac; }
PLACER_LISTEN_ADDRESS="${PLACER_LISTEN_ADDRESS:-0.0.0.0}"
listen="/$(kind "$PLACER_LISTEN_ADDRESS")/$PLACER_LISTEN_ADDRESS/tcp"
{# hivemind's daemon shares a port that is taken, and then nobody reaches it. #}
if (exec 3<> "/dev/tcp/$PLACER_LISTEN_ADDRESS/$port") 2> /dev/null; then
  echo "port $port of this machine is taken: another run?" >&2
  exit 2
fi
mkdir -p "$PLACER_KEYS" && chmod 700 "$PLACER_KEYS"
