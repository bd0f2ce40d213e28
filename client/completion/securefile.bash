# Completion of bash for the command securefile.  The verbs and options come from the command
# itself, which prints them with the hidden option --completions.

_securefile()
{
	local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
	local command=${COMP_WORDS[0]} verb= verbs i
	COMPREPLY=()

	# with "=" as a word of its own, as bash splits --against=DIR
	[ "$word" = = ] && word=
	[ "$before" = = ] && before=${COMP_WORDS[COMP_CWORD - 2]}
	case $before in
		--against | --root)
			mapfile -t COMPREPLY < <(compgen -d -- "$word")
			compopt -o filenames 2>/dev/null
			return
			;;
		--links)
			mapfile -t COMPREPLY < <(compgen -W "skip follow keep error" -- "$word")
			return
			;;
		-h | --host)
			mapfile -t COMPREPLY < <(compgen -A hostname -- "$word")
			return
			;;
	esac

	verbs=$("$command" --completions 2>/dev/null | sed -n 's/^\([^-][^\t]*\)\t.*/\1/p')
	for ((i = 1; i < COMP_CWORD; i++)); do
		if [[ $'\n'$verbs$'\n' == *$'\n'"${COMP_WORDS[i]}"$'\n'* ]]; then
			verb=${COMP_WORDS[i]}
			break
		fi
	done
	if [[ $word == -* ]]; then
		mapfile -t COMPREPLY < <(compgen -W "$("$command" ${verb:+"$verb"} --completions 2>/dev/null | sed -n 's/^\(-[^\t]*\)\t.*/\1/p')" -- "$word")
		[[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]] && compopt -o nospace 2>/dev/null
	elif [ -z "$verb" ]; then
		mapfile -t COMPREPLY < <(compgen -W "$verbs" -- "$word")
	elif [[ $verb == key && $before == key ]]; then
		mapfile -t COMPREPLY < <(compgen -W generate -- "$word")
	elif [[ $verb == import || $verb == export || $verb == sync ]]; then
		mapfile -t COMPREPLY < <(compgen -d -- "$word")
		compopt -o filenames 2>/dev/null
	fi
	return 0
}

complete -o default -F _securefile securefile
