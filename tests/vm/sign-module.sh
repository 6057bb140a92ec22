#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Sign kernel modules in place, with the bytes that Linux's scripts/sign-file writes (C.1 of the package format). Also in guests.
#   sign-module.sh KEY MODULE...      KEY.key is the private key and KEY.pem the certificate; environment: HASH, default sha256
# A certificate that another one issued goes into the signature, which sign-file cannot do.
set -eu
key=$1 certificate=-nocerts
shift
if [ "$(openssl x509 -in "$key.pem" -noout -subject_hash)" != "$(openssl x509 -in "$key.pem" -noout -issuer_hash)" ]; then certificate=; fi
for module in "$@"; do
  # The extra configuration of the machine has no say.
  # shellcheck disable=SC2086 # one option or none
  OPENSSL_CONF=/dev/null openssl cms -sign -binary -noattr $certificate -nosmimecap -outform DER -md "${HASH:-sha256}" \
    -signer "$key.pem" -inkey "$key.key" -in "$module" -out "$module.p7s"
  size=$(wc -c <"$module.p7s")
  {
    cat "$module.p7s"
    printf '\0\0\002\0\0\0\0\0' # id_type 2: PKCS#7
    # shellcheck disable=SC2059 # octal escapes
    printf "$(printf '\\%03o' $((size >> 24)) $((size >> 16 & 255)) $((size >> 8 & 255)) $((size & 255)))"
    echo '~Module signature appended~'
  } >>"$module"
  rm "$module.p7s"
done
