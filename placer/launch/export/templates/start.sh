{# The start of the training on one machine: torchrun, or placer's own runtime. #}
{{ node }}
{% include number.sh %}
{% if job %}
{# Steps of the whole job, unless others are asked for. #}
PLACER_STEPS="${PLACER_STEPS:-$PLACER_JOB_STEPS}"
export PLACER_STEPS
{% endif %}
{% if spans %}
{# A start without an overlay is refused, in place of half an hour of waiting. #}
if [ -z "${GLOO_SOCKET_IFNAME:-}" ]; then echo "GLOO_SOCKET_IFNAME: the machines are in several places, whose private addresses do not reach each other: set it to the interface of a network that joins them (a VPN such as Tailscale, or peering)" >&2; exit 2; fi
export GLOO_SOCKET_IFNAME
{% if joined %}
{# One world spans places; inside a place NCCL keeps to the provider's network. #}
NCCL_SOCKET_IFNAME="${NCCL_SOCKET_IFNAME:-$GLOO_SOCKET_IFNAME}"
export NCCL_SOCKET_IFNAME
{% endif %}
{% endif %}
{% if meets %}
port="${PLACER_PORT:-$PLACER_RENDEZVOUS_PORT}"
{% if meet %}
{# Rank 0 tells its address to the others, even where it knows the address itself. #}
if [ -n "${PLACER_MEETING:-}" ] &&
  { [ "$PLACER_RANK" = 0 ] || [ -z "${PLACER_RENDEZVOUS_ADDRESS:-}" ]; }; then
  PLACER_RENDEZVOUS_ADDRESS="$({{ meet }} run "$PLACER_RANK" "$port" "${PLACER_RENDEZVOUS_ADDRESS:-}")" || exit 1
  export PLACER_RENDEZVOUS_ADDRESS
fi
{% endif %}
{% endif %}
{% if asks %}
if [ -z "${PLACER_RENDEZVOUS_ADDRESS:-}" ]; then echo "PLACER_RENDEZVOUS_ADDRESS: set it to an address of rank 0 that every machine reaches" >&2; exit 2; fi
{% endif %}
{% if runs %}
{% include run.sh %}
{% else %}
{% include worlds.sh %}
{% endif %}
