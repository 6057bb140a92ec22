#compdef kmodsmith
# SPDX-License-Identifier: Apache-2.0
# zsh completion of kmodsmith, which says itself what can follow. Also: source <(kmodsmith completion zsh)
_kmodsmith() {
  local tab=$'\t' directive
  local -a typed=("${(@Q)words[1,CURRENT-1]}" "${(Q)PREFIX}") offers
  typed=("${(@)typed/#\~\//$HOME/}")
  offers=("${(@f)$("$typed[1]" __complete "${(@)typed[2,-1]}" 2>/dev/null)}")
  directive=$offers[-1]
  offers=("${(@)${(@)offers[1,-2]//:/\\:}/$tab/:}") # WORD:HELP
  (( ! $#offers )) || _describe -t values kmodsmith offers
  if [[ $directive == :0 ]]; then
    compset -P '-*='
    _files
  fi
}
if [[ $funcstack[1] == _kmodsmith ]]; then _kmodsmith "$@"; else compdef _kmodsmith kmodsmith; fi
