if [ -z "${PLACER_RENDEZVOUS_ADDRESS:-}" ]; then echo "PLACER_RENDEZVOUS_ADDRESS: set it to an address of this machine that every machine reaches" >&2; exit 2; fi
port="$PLACER_RENDEZVOUS_PORT"
{% include hivemind-listen.sh %}
{# Without relaying: gradients that it passed on would be bytes that no plan has. #}
exec hivemind-dht --no_relay --identity_path "$PLACER_KEYS/bootstrap.key" --host_maddrs "$listen/$port" \
  --announce_maddrs "/$(kind "$PLACER_RENDEZVOUS_ADDRESS")/$PLACER_RENDEZVOUS_ADDRESS/tcp/$port" "$@"
