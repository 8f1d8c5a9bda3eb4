# fish completion for cordon. Everything comes from the program (src/cmd/base/complete.h), and ids from the server, if there
# is one.

function __cordon_complete
	set -l words (commandline -opc)
	set -l current (commandline -ct)
	for line in ($words[1] --complete $words[2..-1] "$current" 2>/dev/null)
		switch $line
			case ':nospace'
			case ':files'
				__fish_complete_path "$current"
			case ':command'
				complete -C "$current"
				__fish_complete_path "$current"
			case '*'
				echo $line
		end
	end
end

complete -c cordon -f -a '(__cordon_complete)'
