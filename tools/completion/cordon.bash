# bash completion for cordon. Everything comes from the program (src/cmd/base/complete.h), and ids from the server, if there
# is one.

_cordon() {
	local current=${COMP_WORDS[COMP_CWORD]} line word words=()
	COMPREPLY=()
	# bash takes --name=value for three words.
	for word in "${COMP_WORDS[@]:1:COMP_CWORD}"; do [ "$word" = = ] || words+=("$word"); done
	[ "$current" != = ] || { current=''; words+=(''); }
	while IFS= read -r line; do
		case $line in
		:files) mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -f -- "$current") ;;
		:command) mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -cf -- "$current") ;;
		:nospace) compopt -o nospace 2>/dev/null ;;
		*)
			line=${line%%$'\t'*}
			[[ $line != "$current"* ]] || COMPREPLY+=("$line")
			;;
		esac
	done < <("${COMP_WORDS[0]}" --complete "${words[@]}" 2>/dev/null)
}

complete -F _cordon cordon
