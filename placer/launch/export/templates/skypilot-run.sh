{% if runs %}
. "$HOME/placer-env/bin/activate"
{% endif %}
{% if chooses %}
{# Take the variables of the placement that SkyPilot found machines for: it tells cloud and region #}
{# to every task. #}
taken="$(python3 - <<'END'
import json, os, shlex, sys
told = json.loads(os.environ["SKYPILOT_CLUSTER_INFO"])
at = f'{told["cloud"]}/{told["region"]}'.lower()
places = json.loads(os.environ["PLACER_ALTERNATIVES"])
if at not in places:
    sys.exit(f"the plan has no placement in {at}")
for name, value in places[at].items():
    print(f"unset {name}" if value is None else f"export {name}={shlex.quote(value)}")
END
)" || exit 2
eval "$taken"
{% endif %}
{% if has_rank_0 %}
{# A task's first node has its rank 0; addresses are private, so they serve within the task. #}
PLACER_RENDEZVOUS_ADDRESS="$(head -n 1 <<< "$SKYPILOT_NODE_IPS")"
export {{ address }}
{% endif %}
{% if begins_world %}
{# Its first node has the first machine of a world. #}
PLACER_WORLD_ADDRESS="$(head -n 1 <<< "$SKYPILOT_NODE_IPS")"
export PLACER_WORLD_ADDRESS
{% endif %}
{{ start }}
