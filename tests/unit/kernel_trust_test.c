// SPDX-License-Identifier: Apache-2.0
// Which hashes a kernel has or can load, and which certificates of firmware and shim count. A real kernel is asked by
// tests/vm/24-secure-boot.
#include "kmod/load/kernel_trust.h"
#include "tests/unit/efi_list.h"
#include "tests/unit/sign.h"
#include "tests/unit/test.h"

static int search(const struct sys *sys, int keyring, const char *description)
{
	(void)sys, (void)keyring;
	errno = ENOKEY;
	return strstr(description, "0c03416161") ? 0 : -1; // "Aaa", its issuer
}

static const struct sys sys = { .key_search = search };

static void test_hash(void **state)
{
	(void)state;
	static const char crypto[] = "name         : sha512-other\ndriver       : sha512\n\nname         : sha256\n"
				     "driver       : sha256-generic\n";
	static const char alias[] = "alias crypto-sha512-generic wrong\nalias crypto-sha512 sha512_generic\n";
	static const char dep[] = "kernel/crypto/sha512_generic.ko:\n";
	static const struct {
		const char *name, *crypto, *alias, *dep, *modprobe, *file;
		const char *hash, *why;
	} rows[] = {
		{ "registered", crypto, "", "", "/sbin/modprobe\n", "", "sha256", NULL },
		{ "nobody can tell", NULL, "", "", "/sbin/modprobe\n", "", "sha512", NULL },
		{ "a container's empty one", "", "", "", "/sbin/modprobe\n", "", "sha512", NULL },
		{ "modprobe finds it", crypto, alias, dep, "/sbin/modprobe\n", "sbin/modprobe", "sha512", NULL },
		{ "no such module", crypto, "alias crypto-sha512_x x\n", dep, "/sbin/modprobe\n", "sbin/modprobe",
		  "sha512", "lib/modules/6.1 has no module for it" },
		{ "its file is gone", crypto, alias, "kernel/crypto/away.ko:\n", "/sbin/modprobe\n", "sbin/modprobe",
		  "sha512", "lib/modules/6.1 has no module for it" },
		{ "no modprobe", crypto, alias, dep, "/sbin/modprobe\n", "", "sha512",
		  "cannot load its module sha512_generic, as there is no modprobe at '/sbin/modprobe'" },
		{ "modprobe is switched off", crypto, alias, dep, "\n", "sbin/modprobe", "sha512",
		  "no modprobe at ''" },
		{ "a kernel that does not say how it loads", crypto, alias, dep, NULL, "", "sha512", NULL },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct folder t;
		folder_make(&t);
		folder_dir(&t, "proc/sys/kernel");
		folder_dir(&t, "lib/modules/6.1/kernel/crypto");
		folder_dir(&t, "sbin");
		folder_file(&t, "lib/modules/6.1/kernel/crypto/sha512_generic.ko", "");
		folder_file(&t, "lib/modules/6.1/modules.alias", rows[i].alias);
		folder_file(&t, "lib/modules/6.1/modules.dep", rows[i].dep);
		if (rows[i].crypto)
			folder_file(&t, "proc/crypto", rows[i].crypto);
		if (rows[i].modprobe)
			folder_file(&t, "proc/sys/kernel/modprobe", rows[i].modprobe);
		if (*rows[i].file)
			folder_file(&t, rows[i].file, "");
		auto_kernel_trust struct kernel_trust trust;
		const struct node node = { .host = &t.root, .kern = &t.root, .sys = &sys };
		kernel_trust_read(&node, "6.1", &trust);
		auto_str char *why = trust.answers.lacks_hash(trust.answers.kernel, rows[i].hash);
		expect(!why == !rows[i].why && (!why || strstr(why, rows[i].why)), rows[i].name);
		folder_done(&t);
	}
}

static void test_certs(void **state)
{
	(void)state;
	auto_signer struct signer known = signer_make("Aaa", NULL), other = signer_make("Bbb", NULL);
	const struct signer *signers[] = { &known, &other };
	struct folder t;
	struct err err;
	auto_str char *data = str_dup("____");
	size_t len = 4;
	for (size_t i = 0; i < 2; i++) {
		size_t size;
		auto_str char *der = signer_cert(signers[i], false, &size);
		efi_list_add(&data, &len, &(struct efi_list_made){ .der = der }, size);
	}
	efi_list_add(&data, &len, &(struct efi_list_made){ .der = "no certificate" }, 14);
	folder_make(&t);
	folder_dir(&t, "proc");
	folder_dir(&t, "sys/firmware/efi/efivars");
	assert_int_equal(root_put(&t.root, "sys/firmware/efi/efivars/db-d719b2cb-3d3a-4596-a3bc-dad00e67656f", data,
				  len, 0644, &err),
			 0);
	for (int is_shown = 0; is_shown < 2; is_shown++) { // no keyring is shown: each may be trusted
		auto_kernel_trust struct kernel_trust trust;
		auto_strv struct strv names = { 0 };
		folder_file(&t, "proc/keys",
			    is_shown ? "0a0b0c0d I------     1 perm 1f0b0000     0     0 keyring   .platform: 2\n" :
				       "");
		const struct node node = { .host = &t.root, .kern = &t.root, .sys = &sys };
		kernel_trust_read(&node, "6.1", &trust);
		modsig_certs_names(trust.certs, &names);
		auto_str char *text = strv_join(&names, " ");
		assert_string_equal(text, is_shown ? "CN=Aaa" : "CN=Aaa CN=Bbb");
	}
	folder_done(&t);
}

// A key that the kernel has, but neither db nor MOK: its certificate is in the image, between what only looks alike.
static void test_built_in(void **state)
{
	(void)state;
	static const unsigned char arm64[] = { 'A', 'R', 'M', 0x64 }, version[] = { 0xa0, 3, 2, 1, 2 };
	static const unsigned char alike[] = { 0x30, 0x82, 0, 0x20, 0x30, 0x82, 0, 0x10, 0xa0, 3, 2, 1, 2 };
	auto_signer struct signer known = signer_make("Aaa", NULL), other = signer_make("Bbb", NULL);
	auto_strv struct strv ids = { 0 }, strangers = { 0 }, names = { 0 };
	char image[8192] = "";
	size_t sizes[2], len = 0;
	struct folder t;
	struct err err;
	auto_str char *aaa = signer_cert(&known, false, &sizes[0]), *bbb = signer_cert(&other, false, &sizes[1]);
	strv_add(&ids, modsig_cert_id(aaa, sizes[0]));
	strv_add(&strangers, modsig_cert_id(bbb, sizes[1]));
	memcpy(image + 56, arm64, sizeof(arm64)); // a flat image
	memcpy(image + 64, version, sizeof(version));
	len = 128;
	memcpy(image + len, bbb, sizes[1]);
	len += sizes[1];
	memcpy(image + len, alike, sizeof(alike));
	len += sizeof(alike);
	memcpy(image + len, aaa, sizes[0]);
	len += sizes[0];
	memcpy(image + len, aaa, 20); // cut off by the end
	len += 20;
	folder_make(&t);
	folder_dir(&t, "boot");
	folder_dir(&t, "proc");
	folder_file(&t, "proc/keys",
		    "0a0b0c0d I------     1 perm 1f0b0000     0     0 keyring   .builtin_trusted_keys: 1\n");
	assert_int_equal(root_put(&t.root, "boot/vmlinuz-6.1", image, len, 0644, &err), 0);
	auto_kernel_trust struct kernel_trust trust;
	const struct node node = { .host = &t.root, .kern = &t.root, .sys = &sys };
	kernel_trust_read(&node, "6.1", &trust);
	trust.answers.certs(trust.answers.kernel, &strangers);
	assert_false(trust.is_image_read);
	modsig_certs_names(trust.answers.certs(trust.answers.kernel, &ids), &names);
	auto_str char *text = strv_join(&names, " ");
	assert_string_equal(text, "CN=Aaa");
	assert_true(modsig_certs_has(trust.certs, ids.items[0]));
	assert_false(modsig_certs_has(trust.certs, strangers.items[0]));
	folder_done(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hash),
		cmocka_unit_test(test_certs),
		cmocka_unit_test(test_built_in),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
