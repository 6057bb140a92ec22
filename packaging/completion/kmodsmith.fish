# SPDX-License-Identifier: Apache-2.0
# fish completion of kmodsmith, which says itself what can follow. Also: kmodsmith completion fish | source
function __kmodsmith_offers # false: files
    set -l words (string replace -r '^~/' "$HOME/" -- (commandline -opc) (commandline -ct))
    set -g __kmodsmith_offered ($words[1] __complete $words[2..] 2>/dev/null)
    set -l directive $__kmodsmith_offered[-1]
    set -e __kmodsmith_offered[-1]
    test "$directive" != :0
end
complete -c kmodsmith -n __kmodsmith_offers -f -a '$__kmodsmith_offered'
