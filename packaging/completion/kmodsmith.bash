# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# bash completion of kmodsmith, which says itself what can follow. Also: source <(kmodsmith completion bash)
_kmodsmith() {
  local rest=${COMP_LINE:0:COMP_POINT} part words=() offers typed
  for part in "${COMP_WORDS[@]:0:COMP_CWORD+1}"; do # bash splits at = and :, too
    [[ ${#words[@]} -gt 0 && $rest != [[:space:]]* ]] || words+=("")
    rest=${rest#"${rest%%[![:space:]]*}"}
    words[-1]+=${rest:0:${#part}} rest=${rest:${#part}}
  done
  words=("${words[@]//[\"\'\\]/}")
  words=("${words[@]/#\~\//"$HOME/"}")
  typed=${words[-1]}
  mapfile -t offers < <("${words[0]}" __complete "${words[@]:1}" 2>/dev/null)
  [ "${offers[*]: -1}" = :0 ] || compopt +o default # else files
  COMPREPLY=("${offers[@]%%$'\t'*}")
  COMPREPLY=("${COMPREPLY[@]:0:${#offers[@]}-1}")
  COMPREPLY=("${COMPREPLY[@]#"${typed%"${typed##*["$COMP_WORDBREAKS"]}"}"}")
}
complete -o default -F _kmodsmith kmodsmith
