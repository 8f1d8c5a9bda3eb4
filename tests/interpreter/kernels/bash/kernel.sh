# The scripted kernel, started directly, as those of most languages are.
exec /usr/bin/python3 -S "$(dirname "$0")/../scripted.py"
