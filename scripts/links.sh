#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The rule "links": what a page (*.md) points at is there. Prints each link, heading or file that is not as FILE:LINE:TEXT.
#   [text](path#heading)    relative to the page; a heading as GitHub spells it. Addresses with a scheme are not looked at
#   installer/base/err.c    a file with an extension, or a directory with a slash at its end, of the repository, wherever a
#                           page names it; * and {a,b} as in a shell. A name with a part in capitals (tests/cli/NAME.bats)
#                           stands for others. CHANGELOG.md is history
set -euo pipefail
cd "$(dirname "$0")/.."

{ find ./*.md docs deploy images installer kmod precompiled scripts tests -name '*.md' 2>/dev/null || true; } |
  sed 's#^\./##; /^tests\/hosts\//d' | sort -u | perl -e '
use strict;
use warnings;
my $rooms = qr{(?:\.ci|deploy|docs|images|installer|kmod|precompiled|scripts|tests)};
my %headings; # page => its anchors

sub text {
  open(my $f, "<", $_[0]) or return "";
  local $/;
  return <$f> // "";
}
sub anchors {
  my ($page) = @_;
  return $headings{$page} if $headings{$page};
  my (%there, %count);
  my $text = text($page) =~ s/^```.*?^```$//gmsr;
  for my $name ($text =~ /^#+ +(.*?) *$/mg) {
    $name = lc($name =~ s/\[([^]]*)\]\([^)]*\)/$1/gr) =~ s/[^\w\- ]//gr =~ tr/ /-/r;
    my $again = $count{$name}++;
    $there{$again ? "$name-$again" : $name} = 1;
  }
  return $headings{$page} = \%there;
}
sub clean { # a/../b
  my @parts;
  $_ eq ".." ? pop @parts : $_ eq "." || push @parts, $_ for split m{/}, $_[0];
  return join "/", @parts;
}
while (my $page = <STDIN>) {
  chomp $page;
  my $text = text($page);
  my ($dir) = $page =~ m{^(.*/)};
  my $say = sub { print "$page:", 1 + (substr($text, 0, $_[0]) =~ tr/\n//), ":$_[1]\n" };
  while ($text =~ /\]\((?![a-z+]+:)([^)\s#]*)(?:#([^)\s]*))?\)/g) {
    my ($path, $name, $at) = ($1, $2, $-[0]);
    my $to = $path eq "" ? $page : clean(($dir // "") . $path);
    if (!-e $to) { $say->($at, "$path is not there") }
    elsif (defined $name && $to =~ /\.md$/ && !anchors($to)->{$name}) { $say->($at, "$to has no heading #$name") }
  }
  next if $page eq "CHANGELOG.md";
  while ($text =~ m{(?<![\w/.:+\]-])(?<!\]\()($rooms/[\w./*\{\},+-]*[\w*\}/])}g) {
    my ($path, $at) = ($1, $-[0]);
    next unless $path =~ m{/$|\.[a-z]\w*$|\}$} && $path !~ m{[A-Z]{3}(?!.*\.md$)};
    my @files = glob $path;
    $say->($at, "$_ is not there") for grep { !-e } @files ? @files : $path;
  }
}'
