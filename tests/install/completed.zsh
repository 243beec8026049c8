# Prints what zsh offers when a tab follows the words that are typed, one a line. Arguments: the folder of the completion, the words.
# A shell in a terminal of its own completes, as completion works nowhere else; it prints instead of showing.
zmodload zsh/zpty
cat >"$TMPPREFIX-completed-$$" <<'ZSH'
PROMPT= RPROMPT=
autoload -Uz compinit && compinit -D -u
zstyle ':completion:*' menu no
compadd() {
    if [[ ${@[1,(i)(-|--)]} == *-[OAD]\ * ]]; then
        builtin compadd "$@"
        return
    fi
    local -a offered
    builtin compadd -A offered "$@"
    local each
    for each in $offered; do
        print -r -- "offered:$each"
    done
    builtin compadd "$@"
}
shown() { print -r -- "shown:" && exit }
comppostfuncs=(shown)
bindkey '^I' complete-word
print ready:
ZSH
zpty inner "HOME=/nonexistent zsh -f -i"
zpty -w inner "fpath=(${(q)1} \$fpath); source $TMPPREFIX-completed-$$"
while zpty -r inner line && [[ $line != *ready:* ]]; do :; done
zpty -w -n inner "$2"$'\t'
while zpty -r inner line; do
    line="${${line%$'\n'}%$'\r'}"
    case $line in
        *offered:*) print -r -- "${line##*offered:}" ;;
        *shown:*) break ;;
    esac
done
zpty -d inner
rm -f "$TMPPREFIX-completed-$$"
