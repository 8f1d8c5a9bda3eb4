# kernel.sh - runs cells of bash in one shell that keeps its variables, functions, options and directory.
# Started by cordon-interpreter with descriptor 3 = a socket to it, one JSON object per line each way. Output of
# cells goes straight to descriptors 1 and 2, which are pipes to the server.
#
# A cell is run by `source` in this shell (not `eval`, so that messages have its line numbers). What ends a shell (exit,
# set -e, an unset variable with set -u, an interrupt) runs the trap EXIT, which answers the request and then starts the
# kernel again in the same process (exec), with the shell's state in a here-string: so a cell that ends does not take the
# context with it. Bash offers no other way out of a running loop.
#
# What must not change: every execute request is answered by one `done`; names here begin with __cordon_, and commands
# are called by `builtin`, since cells may define functions of any name and set any option.
__cordon_kernel=${BASH_SOURCE[0]}

# Descriptor 251, above what cells use, is the socket, and 250 what is read by the shell itself.
__cordon_send() {
	builtin printf '%s\n' "$1" >&251
}

# __cordon_unquote TEXT: decodes a JSON string into __cordon_text. printf decodes its escapes but pairs of surrogates.
__cordon_unquote() {
	local LC_ALL=C.UTF-8 text=$1 high low pair
	while [[ $text =~ (^|[^\\])(\\\\)*(\\u([dD][89abAB]..)\\u([dD][c-fC-F]..)) ]]; do
		((high = 16#${BASH_REMATCH[4]}, low = 16#${BASH_REMATCH[5]}))
		builtin printf -v pair '\\U%08x' $((0x10000 + ((high - 0xd800) << 10) + low - 0xdc00))
		text=${text/"${BASH_REMATCH[0]}"/"${BASH_REMATCH[0]%"${BASH_REMATCH[3]}"}$pair"}
	done
	builtin printf -v __cordon_text '%b' "$text"
}

# __cordon_split LINE: the line cut at its quotes into the array __cordon_parts: what is between strings at even
# places, strings at odd ones. In time that grows with the line, which rules ${line//} out.
__cordon_split() {
	local LC_ALL=C IFS='"' piece slashes
	local -a pieces part=()
	builtin set -f
	pieces=($1)
	builtin set +f
	__cordon_parts=()
	for piece in "${pieces[@]}"; do
		slashes=${piece##*[!\\]}
		if ((${#slashes} % 2)); then
			part+=("${piece%\\}") # up to an escaped quote
		else
			part+=("$piece")
			__cordon_parts+=("${part[*]}") # joined by quotes
			part=()
		fi
	done
}

# __cordon_parse LINE: sets __cordon_op, __cordon_id, __cordon_code, __cordon_silent and the array __cordon_env
# (name, value, name, ...). The server writes the line: its form is known, and strings are the only hard part.
__cordon_parse() {
	local i key after depth=0
	__cordon_split "$1"
	__cordon_env=() __cordon_op='' __cordon_id=0 __cordon_code='' __cordon_silent=false
	for ((i = 1; i < ${#__cordon_parts[@]}; i += 2)); do
		key=${__cordon_parts[i]} after=${__cordon_parts[i + 1]// /}
		case $after in
		:) # a string follows
			i=$((i + 2))
			__cordon_unquote "${__cordon_parts[i]}"
			if ((depth)); then __cordon_env+=("$key" "$__cordon_text")
			elif [[ $key == code ]]; then __cordon_code=$__cordon_text
			elif [[ $key == op ]]; then __cordon_op=$__cordon_text
			fi
			[[ ${__cordon_parts[i + 1]} != *\}* ]] || depth=0
			;;
		:\{) depth=1 ;;
		*) [[ $after =~ ^:([0-9]+|true|false) ]] && builtin printf -v "__cordon_$key" %s "${BASH_REMATCH[1]}" ;;
		esac
	done
}

# Sets the call's variables and writes down what was there.
__cordon_enter_env() {
	local i name
	__cordon_before=()
	for ((i = 0; i < ${#__cordon_env[@]}; i += 2)); do
		name=${__cordon_env[i]}
		[[ $name =~ ^[A-Za-z_][A-Za-z_0-9]*$ ]] || continue
		if [[ -v $name ]]; then __cordon_before+=("$name" "=${!name}"); else __cordon_before+=("$name" ''); fi
		builtin export "$name=${__cordon_env[i + 1]}"
	done
}

__cordon_leave_env() {
	local i
	for ((i = 0; i < ${#__cordon_before[@]}; i += 2)); do
		if [[ ${__cordon_before[i + 1]} ]]; then
			builtin export "${__cordon_before[i]}=${__cordon_before[i + 1]#=}"
		else
			builtin unset "${__cordon_before[i]}"
		fi
	done
	__cordon_before=()
}

# The end of a cell, with its status.
__cordon_finish() {
	local IFS=$' \t\n' name=ExitStatus value=$1
	if [[ $__cordon_interrupted ]]; then name=Interrupted value='the execution was interrupted'; fi
	if ((__cordon_status)); then
		__cordon_send "{\"type\":\"error\",\"name\":\"$name\",\"value\":\"$value\",\"traceback\":\"$name: $value\"}"
	fi
	__cordon_leave_env
	__cordon_running=
	__cordon_send "{\"type\":\"done\",\"id\":$__cordon_id}"
}

# trap EXIT: see above. A trap EXIT of the cell's own runs now, as in a script that ends.
__cordon_on_exit() {
	__cordon_status=$?
	{ __cordon_options=$-; builtin set +euxvf; } 2> /dev/null
	if [[ ! $__cordon_running ]]; then builtin exit; fi
	[[ $__cordon_theirs ]] && builtin eval "$__cordon_theirs"
	__cordon_finish "$__cordon_status"
	__cordon_options=${__cordon_options//[!abfhknptuBCEHPT]/} # all but -e, which would end each of the next cells, too
	local state
	state=$(builtin declare -p | command grep -v '^declare -[a-zA-Z]*r[a-zA-Z]* \(BASHOPTS\|BASH_VERSINFO\|EUID\|PPID\|SHELLOPTS\|UID\)=' 2> /dev/null || builtin declare -p)
	state+=$'\n'$(builtin declare -f)$'\n'$(builtin alias -p)$'\n'$(builtin shopt -p)
	exec bash "$__cordon_kernel" --again 250<<< "$state"
}

# Cells set a trap EXIT by this: it must not replace the kernel's.
trap() {
	local last=${!#}
	if ((BASH_SUBSHELL == 0 && $# == 2)) && [[ $last == EXIT || $last == 0 ]]; then
		__cordon_theirs=$1
		[[ $1 != - ]] || __cordon_theirs=
	else
		builtin trap "$@"
	fi
}

__cordon_on_interrupt() {
	[[ $__cordon_running ]] || return 0
	__cordon_interrupted=1
	builtin exit 130
}

__cordon_status_of_last() {
	return "$__cordon_status"
}

__cordon_execute() {
	[[ $__cordon_silent == true ]] || ((__cordon_count++))
	[[ $__cordon_silent == true ]] || __cordon_send "{\"type\":\"count\",\"execution_count\":$__cordon_count}"
	__cordon_enter_env
	__cordon_interrupted= __cordon_running=1
}

# --- the shell's own level: cells must not be inside of a function, or `declare` would make local variables

if [[ ${1-} == --again ]]; then
	builtin eval "$(< /dev/fd/250)" 2> /dev/null
	exec 250<&-
	__cordon_running= __cordon_theirs=
else
	exec 251<&3 3<&-
	builtin shopt -s expand_aliases
	__cordon_count=0 __cordon_status=0 __cordon_options= __cordon_theirs= __cordon_running= __cordon_before=()
	__cordon_send '{"type":"ready"}'
fi
builtin set --
builtin trap __cordon_on_interrupt INT
builtin trap __cordon_on_exit EXIT
while IFS= builtin read -r __cordon_line <&251; do
	__cordon_parse "$__cordon_line"
	case $__cordon_op in
	env)
		__cordon_enter_env
		continue
		;;
	execute) __cordon_execute ;;
	*) continue ;;
	esac
	[[ ! $__cordon_options ]] || builtin set "-$__cordon_options"
	__cordon_status_of_last
	builtin source /dev/fd/250 250<<< "$__cordon_code"
	{ __cordon_status=$? __cordon_options=$-; builtin set +euxvf; } 2> /dev/null
	# -x and -v hold for their cell only: in the next they would show the kernel's own commands
	__cordon_options=${__cordon_options//[!abefhknptuBCEHPT]/}
	builtin trap __cordon_on_interrupt INT
	__cordon_finish "$__cordon_status"
done
