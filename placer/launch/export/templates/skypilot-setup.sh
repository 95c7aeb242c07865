{% if runs %}
{# SkyPilot brings uv for itself; the Python of an image may be too old for placer. #}
set -e
set -- {{ wheel }}
if [ ! -e "$1" ]; then
  echo "no {{ wheel }} in the folder of the export: its README.md says how to make it" >&2
  exit 2
fi
uv="$HOME/.local/bin/uv"
"$uv" venv --python 3.11 --allow-existing "$HOME/placer-env"
"$uv" pip install --python "$HOME/placer-env/bin/python" torch boto3 "./$1"
if [ -f requirements.txt ]; then
  "$uv" pip install --python "$HOME/placer-env/bin/python" -r requirements.txt
fi
{% else %}
python3 -c 'import torch' || pip install torch
{% if asks %}
python3 -c 'import boto3' || pip install boto3
{% endif %}
{% endif %}
{% if spans %}
{# Private addresses do not reach from place to place: an overlay joins the tasks, with a key that #}
{# is given at launch and stands nowhere in the files. #}
if [ "$GLOO_SOCKET_IFNAME" = tailscale0 ]; then
  curl -fsSL https://tailscale.com/install.sh | sh
  sudo tailscale up --auth-key="$TS_AUTHKEY"
fi
{% endif %}
