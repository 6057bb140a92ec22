#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The rule "papers": whatever the sources cite of a document in docs/design is there. Prints each citation that leads nowhere
# as FILE:LINE:TEXT.
#   WORD N.N          a heading "N.N ..." of the document of that word; also "N.N, N.N", "N.N and N.N", "N.N to N.N", and
#                     "N.N of the WORD", with the end of a comment's line anywhere in between
#   (N.N), (ID, N.N)  the same in the rollout's own sources, which leave the word out; in its document any such number
#   Tnn               a scenario: a row "| Tnn |" of tests/cluster/scenarios.md, and of upgrade-design
#   In, Ln, Dn, Sn    a row of upgrade-design, wherever a rollout's sources and tests say it
#   R-Xn              a requirement: a paragraph "**R-Xn** ..." of docs/design/requirements.md
set -euo pipefail
cd "$(dirname "$0")/.."
export PAPERS='upgrade-design docs/design/upgrade-design.md
contract docs/design/contract.md
package-format docs/design/package-format.md'

{ find ./*.md installer kmod precompiled tests scripts .ci images deploy docs -type f 2>/dev/null || true; } |
  sed 's#^\./##' | grep -E '\.(c|h|sh|bash|bats|py|S|def|ya?ml|json|scd|md|toml)$|^\.ci/run$' |
  grep -vE '^tests/(hosts|fuzz/corpus)/' | sort | perl -e '
use strict;
use warnings;
my ($rollout, $scenes, $needs, %there) = ("upgrade-design", "tests/cluster/scenarios.md", "docs/design/requirements.md");
my %paper = map { split } split /\n/, $ENV{PAPERS};
my $words = join "|", map { s/(?<=package)-/[- ]/r } keys %paper;
my $gap = qr{[\s/#*]+};
my $part = qr{(?:\d+|[A-Z](?=\.))(?:\.\d+)*};
my $list = qr{$part(?:(?:,|,? and|,? to)$gap(?=\w+\.\d)$part)*};
my $rooms = qr{^(?:installer/cluster|tests/(?:cluster|sim|unit|vm))/|^$paper{$rollout}$};

sub text {
  open(my $f, "<", $_[0]) or return "";
  local $/;
  return <$f> // "";
}
for my $file (values %paper, $scenes, $needs) {
  my $text = text($file);
  $there{$file}{$_} = 1 for $text =~ /^#+ ($part|[A-Z]) /mg, $text =~ /^\| ([A-Z]\d+b?) \|/mg, $text =~ /^\*\*(R-[A-Z]\d+)\*\* /mg;
}
sub judge {
  my ($at, $name, @files) = @_;
  my ($file, $text, $offset) = @$at;
  my $line = 1 + (substr($text, 0, $offset) =~ tr/\n//);
  print "$file:$line:$name is not in $_\n" for grep { !$there{$_}{$name} } @files;
}
while (my $file = <STDIN>) {
  chomp $file;
  my $text = text($file);
  my $is_rollout = $file =~ $rooms;
  my $bare = $file eq $paper{$rollout} ? qr{(?<![\d.\x60])([45]\.\d+(?:\.\d+)?)(?![\d.]*\d)}
    : qr{\((?:[TILDS]\d+b?, )*([45]\.\d+(?:\.\d+)?)\)};
  while ($text =~ /\b(?<word>$words)$gap(?<all>$list)|\b(?<all>$list)${gap}of${gap}the$gap(?<word>$words)\b/gi) {
    my ($word, $all, $offset) = (lc $+{word} =~ tr/ /-/r, $+{all}, $-[0] + rindex($&, $+{all}));
    judge([$file, $text, $offset], $_, $paper{$word}) for $all =~ /$part/g;
  }
  while ($is_rollout && $text =~ /$bare/g) { judge([$file, $text, $-[1]], $1, $paper{$rollout}) }
  while ($text =~ /(?<![-\w])(R-[A-Z]\d+)(?!\w)/g) { judge([$file, $text, $-[1]], $1, $needs) }
  while ($text =~ /(?<![-\w])(T\d\db?)(?!\w)/g) { judge([$file, $text, $-[1]], $1, $scenes, $paper{$rollout}) }
  while ($is_rollout && $text =~ /(?<![-\w])([DL]\d|[IS]\d\d?)(?!\w)/g) { judge([$file, $text, $-[1]], $1, $paper{$rollout}) }
}'
