#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What is offered after TAB: by the program, by bash and zsh at a terminal, by fish, and to kubectl.
# shellcheck disable=SC2030,SC2031,SC2154 # each test has its own output; bats and helper.bash set top and stderr
load helper
load package

setup() {
  mkdir "$BATS_TEST_TMPDIR/bin"
  ln -s "$KMODSMITH" "$BATS_TEST_TMPDIR/bin/kmodsmith"
  PATH=$BATS_TEST_TMPDIR/bin:$PATH
}
teardown() { [ -z "${server-}" ] || { kill -KILL "$server" && wait "$server"; } 2>/dev/null || true; }
offers() { # WORD...: the last is what was typed so far; a word and its help a line, then :0 or :4
  run --separate-stderr timeout "$hung" "$KMODSMITH" __complete "$@"
  assert_success
  assert_equal "$stderr" ""
}
fish_offers() { HOME=$BATS_TEST_TMPDIR run fish -c "kmodsmith completion fish | source; complete -C '$1'"; } # LINE
# Types lines into an interactive bash or zsh, each with a TAB at its end, and waits for what the shell adds to them.
tab() { # SHELL ROWS: of LINE|ADDED
  printf '%s\n' 'bind "set enable-bracketed-paste off"' 'source <(kmodsmith completion bash)' 'PS1=ready' >"$BATS_TEST_TMPDIR/bashrc"
  printf '%s\n' 'autoload -U compinit && compinit -u -D' 'source <(kmodsmith completion zsh)' 'PS1=ready' >"$BATS_TEST_TMPDIR/.zshrc"
  ZDOTDIR=$BATS_TEST_TMPDIR TERM=dumb run timeout "$hung" python3 -c 'import os, pty, sys
rc, shell, rows = sys.argv[1:]
pid, fd = pty.fork()
if pid == 0:
    os.execvp(shell, ["bash", "--noprofile", "--rcfile", rc, "-i"] if shell == "bash" else ["zsh", "-d", "-i"])
def wait(text):
    seen = b""
    while text.encode() not in seen:
        seen += os.read(fd, 4096).replace(b"\a", b"")
        print(text, seen, flush=True)
wait("ready")
for row in rows.splitlines():
    line, added = row.split("|")
    os.write(fd, b"\x15" + line.encode() + b"\t") # not after the line before
    wait(added)' "$BATS_TEST_TMPDIR/bashrc" "$@"
  assert_success
}

@test "every command, verb and option is offered, with its help" {
  local name options
  offers ""
  while read -r name; do
    assert_line --regexp "^${name%% *}"$'\t..'
  done < <(commands)
  assert_line --regexp $'^--version\t'
  while read -r name; do
    # shellcheck disable=SC2086 # a command may have two words
    offers $name -
    # shellcheck disable=SC2086
    options=$("$KMODSMITH" $name --help-all | sed -nE 's/^ {2,6}(-[a-z], )?(--[a-z0-9-]+).*/\2/p' | sort -u)
    assert_equal "$(sed -n 's/\t...*//p' <<<"$output" | sort)" "$options"
    assert_line ":4"
  done < <(commands)
}

@test "words of options and of arguments are offered, and files where one can stand" {
  local typed last want
  export KMODSMITH_CONFIG=/nowhere # an error, but not of what is typed
  while IFS='|' read -r typed last want; do
    # shellcheck disable=SC2086 # several words
    offers $typed "$last"
    assert_equal "$(cut -f1 <<<"$output" | paste -sd' ')" "$want"
  done <<'EOF'
|ins|install :4
store|g|gc :4
help store|p|pin :4
help store pin|-|:4
nonsense||:4
install --flavour|p|proprietary :4
install|--flavour=o|--flavour=open :4
install --flavour=open --driver 5 --flavour|o|open :4
install|--driver=5|:4
bundle create -f|b|both :4
bundle create|-fb|-fboth :4
bundle create|-qfb|-qfboth :4
status -o||json :4
status -qo|j|json :4
install --source|dri|:0
install|--source=dri|:0
install --driver|dri|:4
install --json --source x --driver|--fl|:4
bundle verify|dri|:0
bundle verify --|-|:0
bundle verify x||:4
push a||:0
push a b||:4
explain|E_IN|E_INCOMPLETE E_IN_USE :4
explain xid||:4
probe|r|readiness :4
probe --stall 5|r|readiness :4
completion||bash zsh fish :4
EOF
}

@test "bash and zsh complete what is typed at a terminal" {
  local shell rows='kmodsmith inst|tall
kmodsmith store g|gc
kmodsmith install --flavour p|roprietary
kmodsmith install --source dri|ver.run
kmodsmith install --flavour=pr|oprietary
kmodsmith install --source=driv|er.run
kmodsmith install --root "my dir" --flavour pro|prietary
kmodsmith bundle verify --root "my dir" drive|r.run
kmodsmith install --root my\ dir/ --flavour prop|rietary
: kmodsmith; kmodsmith explain E_INC|OMPLETE'
  cd "$BATS_TEST_TMPDIR"
  mkdir "my dir"
  touch driver.run
  tab bash $'kmodsmith instXX\x02\x02|all' # the cursor stands before XX
  for shell in bash zsh; do
    command -v "$shell" >/dev/null || continue
    tab "$shell" "$rows"$'\nkmodsmith install --driver dri\tX|driX' # no file
  done
}

@test "fish completes commands, options, words and files" {
  command -v fish >/dev/null || skip "fish is not installed"
  fish_offers "kmodsmith store g"
  assert_output $'gc\tremove packages that this machine no longer needs'
  fish_offers "kmodsmith install --flav"
  assert_output --regexp $'^--flavour\twhich modules'
  cd "$BATS_TEST_TMPDIR"
  mkdir "my dir"
  touch driver.run
  fish_offers "kmodsmith install --root \"my dir\" --flavour p"
  assert_output proprietary
  fish_offers "kmodsmith install --flavour=p"
  assert_output -- --flavour=proprietary
  fish_offers "kmodsmith install --driver dri"
  assert_output ""
  fish_offers "kmodsmith install --source dri"
  assert_output driver.run
  fish_offers "kmodsmith install --source=dri"
  assert_output -- --source=driver.run
}

@test "the completion of a shell that is not known is refused" {
  run --separate-stderr "$KMODSMITH" completion tcsh
  assert_status 2
  assert_error E_USAGE "unknown shell 'tcsh' (expected bash, zsh or fish)"
}

with_store() { # a machine with a package, $tag and $digest, and a trusted key
  host h100x8
  export KMODSMITH_ROOT=$ROOT
  loadable
  kmodsmith install --package "$BATS_TEST_TMPDIR/package"
  assert_status 0
  kmodsmith "store ls" --json
  tag=$(jq -r '.items[0].tag' <<<"$output") digest=$(jq -r '.items[0].digest[7:]' <<<"$output")
  openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 2>/dev/null | openssl pkey -pubout >"$BATS_TEST_TMPDIR/key.pem"
  kmodsmith "trust add" "$BATS_TEST_TMPDIR/key.pem" --name release
}
@test "packages of the store and trusted keys are offered, and nothing is written" {
  local tag digest shell
  host h100x8
  KMODSMITH_ROOT=$ROOT offers store pin ""
  assert_output ":4"
  assert_unchanged
  with_store
  snapshot
  offers store show ""
  assert_output "$tag"$'\n'"$digest"$'\n:4'
  offers store pin "${digest:0:5}"
  assert_output "$digest"$'\n:4'
  offers store pin --
  assert_line --partial --state-dir
  refute_line "$tag"
  offers store unpin ""
  assert_output ":4"
  offers store pin --state-dir "$BATS_TEST_TMPDIR/none" "" # as typed
  assert_output ":4"
  offers trust remove ""
  assert_output $'release\n:4'
  for shell in bash zsh; do
    ! command -v "$shell" >/dev/null || tab "$shell" "kmodsmith store show ${tag:0:6}|${tag:6}"$'\nkmodsmith trust remove re|lease'
  done
  ! command -v fish >/dev/null || fish_offers "kmodsmith trust remove r"
  assert_output --partial release
  assert_unchanged
  kmodsmith "store pin" "$tag"
  offers store unpin ""
  assert_line "$tag"
}

with_cluster() { # an API that says what files do: a policy with a pool and two nodes; teardown ends it
  local api=$BATS_TEST_TMPDIR/cluster
  mkdir -p "$api/api/v1/namespaces/kmodsmith/configmaps" "$api/apis/apps/v1"
  echo '{"pools": [{"name": "gpus", "target": {"driver": "535.261.03"}, "waves": [{"name": "canary", "count": 1}, {"name": "main", "percent": 50}]}]}' |
    jq -Rs '{kind: "ConfigMap", metadata: {name: "kmodsmith-policy", resourceVersion: "1"}, data: {"policy.json": .}}' \
      >"$api/api/v1/namespaces/kmodsmith/configmaps/kmodsmith-policy"
  jq -n '{kind: "NodeList", metadata: {resourceVersion: "1"}, items: ["gpu-1", "gpu-2"] | map({metadata: {name: ., uid: ., resourceVersion: "1"}})}' >"$api/api/v1/nodes"
  echo '{"kind": "DaemonSetList", "metadata": {"resourceVersion": "1"}, "items": []}' >"$api/apis/apps/v1/daemonsets"
  (cd "$api" && exec python3 -u -c 'import functools, http.server as h
s = h.ThreadingHTTPServer(("127.0.0.1", 0), h.SimpleHTTPRequestHandler); print(s.server_port, flush=True); s.serve_forever()' >port 2>log 3>&-) &
  server=$!
  soon test -s "$api/port"
  export KUBECONFIG=$BATS_TEST_TMPDIR/kubeconfig
  jq -n --arg server "http://127.0.0.1:$(cat "$api/port")" '{"current-context": "c", contexts: [{name: "c", context: {cluster: "c", user: "u"}}],
    clusters: [{name: "c", cluster: {server: $server}}], users: [{name: "u", user: {token: "t"}}]}' >"$KUBECONFIG"
}
@test "kubectl completes the plugin's verbs, options, pools, waves and nodes; a dead API delays nobody" {
  local before
  ln -s "$KMODSMITH" "$BATS_TEST_TMPDIR/bin/kubectl_complete-kmodsmith"
  kubectl_offers() { run timeout "$hung" kubectl_complete-kmodsmith "$@"; }
  kubectl_offers ""
  assert_line --regexp $'^why\texplain'
  assert_line ":4"
  kubectl_offers st
  assert_output --regexp $'^status\t.*\n:4$'
  kubectl_offers status --po
  assert_output $'--pool\tonly these pools\n:4'
  kubectl_offers status --until ""
  assert_output $'done\nidle\n:4'
  with_cluster
  kubectl_offers why ""
  assert_output $'gpu-1\ngpu-2\n:4'
  kubectl_offers status --pool g
  assert_output $'gpus\n:4'
  kubectl_offers status --pool=g
  assert_output $'--pool=gpus\n:4'
  kubectl_offers approve -n kmodsmith gpus ""
  assert_output $'canary\nmain\nrest\n:4'
  offers rollout abort -o json g
  assert_output $'gpus\n:4'
  kill -STOP "$server" # it takes connections, and answers none
  before=$SECONDS
  kubectl_offers why ""
  assert_output ":4"
  offers rollout abort g
  assert_output ":4"
  ((SECONDS - before < 30)) || fail "it hangs"
}
