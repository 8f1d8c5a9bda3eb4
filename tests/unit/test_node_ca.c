/* Goal: the node's authority is kept whole, for its owner only, and of two makers the first is
 * right; what is read of it for others has no key. Its certificate gets to every place where
 * programs look, Java's included, and is the template's only change there. */
#include "cell/template/node_ca.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/io.h"
#include "cell/template/keystore.h"
#include "lib/base/sha1.h"
#include "test.h"
#include "lib/base/rmtree.h"
#include "cell/template/ca_trust.h"

#define KEY "-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n"
#define CERT "-----BEGIN CERTIFICATE-----\nY2VydGlm\naWNhdGU=\n-----END CERTIFICATE-----\n"
#define TEXT "# 1a2b3c4d.0\n" KEY CERT

static struct err e;

static int read_text(const char *text, struct node_ca *ret)
{
	char *exact = strdup(text);
	int got = node_ca_read(exact, strlen(text), ret, &e);

	free(exact);
	return got;
}

static void the_text_is_taken_apart(void)
{
	static const char *const bad[] = {
		"",
		"#",
		"# ",
		"# 1a2b3c4d.0\n",
		KEY CERT,
		"# 1a2b3c4d.0\n" KEY,
		"# 1a2b3c4d.1\n" KEY CERT,
		"# 1A2B3C4D.0\n" KEY CERT,
		"# ../../etc.0\n" KEY CERT,
		"# 1a2b3c4d.0/\n" KEY CERT,
		"#  1a2b3c4d.0\n" KEY CERT,
		"# 1a2b3c4d.0\n" CERT KEY CERT,
		"# 1a2b3c4d.0\n-----BEGIN CERTIFICATE-----\nY2Vy",
	};
	struct node_ca a;
	char *big = malloc(NODE_CA_TEXT_MAX + 1);

	CHECK(read_text(TEXT, &a) == 0);
	CHECK(strcmp(a.link, "1a2b3c4d.0") == 0 && strcmp(a.cert, CERT) == 0 && a.fd == -1);
	CHECK(memmem(&a, sizeof(a), "c2VjcmV0", 8) == NULL);
	for (size_t i = 0; i < COUNT(bad); i++)
		CHECK(read_text(bad[i], &a) == -1 && e.code == ERR_INVALID);
	CHECK(node_ca_read(TEXT, sizeof(TEXT), &a, &e) == -1); /* a NUL in it */
	memset(big, '\n', NODE_CA_TEXT_MAX);
	memcpy(big, TEXT, strlen(TEXT));
	CHECK(node_ca_read(big, NODE_CA_TEXT_MAX - 1, &a, &e) == 0);
	CHECK(node_ca_read(big, NODE_CA_TEXT_MAX, &a, &e) == -1 && e.code == ERR_INVALID);
	free(big);
}

/* An ordinary user with a home of his own; root's cache is the machine's. */
static void in_a_home(char *ret, size_t cap)
{
	(void)snprintf(ret, cap, "/tmp/test_authority.XXXXXX");
	CHECK(mkdtemp(ret) != NULL);
	if (geteuid() == 0) {
		CHECK(chown(ret, 54325, 54325) == 0);
		CHECK(setresgid(54325, 54325, 54325) == 0 && setresuid(54325, 54325, 54325) == 0);
	}
	CHECK(setenv("HOME", ret, 1) == 0);
}

static void it_is_kept(void)
{
	char home[64], path[128], text[sizeof(TEXT) + 1] = "";
	struct node_ca a = { .fd = -1 };
	struct stat st;

	in_a_home(home, sizeof(home));
	CHECK(node_ca_open(&a, &e) == -1 && e.code == ERR_NOT_FOUND);
	CHECK(node_ca_save("nonsense", 8, &e) == -1 && e.code == ERR_INVALID);
	CHECK(node_ca_open(&a, &e) == -1 && e.code == ERR_NOT_FOUND);
	CHECK(node_ca_save(TEXT, strlen(TEXT), &e) == 0);
	CHECK(node_ca_save("# 00000000.0\n" KEY CERT, strlen(TEXT), &e) == 0);
	CHECK(node_ca_open(&a, &e) == 0);
	CHECK(strcmp(a.link, "1a2b3c4d.0") == 0 && strcmp(a.cert, CERT) == 0);
	CHECK(pread(a.fd, text, sizeof(text), 0) == (ssize_t)strlen(TEXT));
	CHECK(strcmp(text, TEXT) == 0 && (fcntl(a.fd, F_GETFL) & O_ACCMODE) == O_RDONLY);
	node_ca_release(&a);
	CHECK(a.fd == -1);
	(void)snprintf(path, sizeof(path), "%s/.cache/cordon/authority.pem", home);
	CHECK(stat(path, &st) == 0 && (st.st_mode & 07777) == 0600 && st.st_nlink == 1);
	CHECK(chmod(path, 0640) == 0);
	CHECK(node_ca_open(&a, &e) == -1 && e.code == ERR_DENIED);
	CHECK(unlink(path) == 0 && symlink("/dev/null", path) == 0);
	CHECK(node_ca_open(&a, &e) == -1 && e.code != ERR_NOT_FOUND);
	rmtree(AT_FDCWD, home);
}

/* Many at once: all end up with the same one, whole. */
static void the_first_maker_is_right(void)
{
	char home[64], text[sizeof(TEXT)];
	struct node_ca a, first;

	in_a_home(home, sizeof(home));
	for (int i = 0; i < 16; i++) {
		pid_t pid = fork();

		CHECK(pid >= 0);
		if (pid > 0)
			continue;
		memcpy(text, TEXT, sizeof(text));
		text[2] = (char)('0' + i % 10);
		_exit(node_ca_save(text, strlen(text), &e) == 0 && node_ca_open(&a, &e) == 0
			      ? a.link[0]
			      : 0);
	}
	CHECK(node_ca_save(TEXT, strlen(TEXT), &e) == 0 && node_ca_open(&first, &e) == 0);
	for (int i = 0; i < 16; i++) {
		int status;

		CHECK(wait(&status) > 0 && WIFEXITED(status));
		CHECK(WEXITSTATUS(status) == first.link[0]);
	}
	node_ca_release(&first);
	rmtree(AT_FDCWD, home);
}

/* A store without certificates, of the password that all have. */
static size_t empty_store(uint8_t *ret)
{
	static const uint8_t bytes[] = "\0c\0h\0a\0n\0g\0e\0i\0tMighty Aphrodite"
				       "\xfe\xed\xfe\xed\0\0\0\2\0\0\0\0";

	memcpy(ret, bytes + sizeof(bytes) - 13, 12);
	sha1_digest(bytes, sizeof(bytes) - 1, ret + 12);
	return 12 + SHA1_SIZE;
}

static void a_keystore_gets_one_more(void)
{
	static const uint8_t want[] = "\xfe\xed\xfe\xed\0\0\0\2\0\0\0\1"
				      "\0\0\0\2\0\6cordon\0\0\0\0\0\0\0\0\0\5X.509"
				      "\0\0\0\xb"
				      "certificate";
	uint8_t empty[64], *made = NULL, *twice = NULL;
	size_t len = empty_store(empty), made_len = 0, twice_len = 0;

	CHECK(keystore_add(empty, len, "cordon", CERT, &made, &made_len, &e) == 0);
	CHECK(made_len == sizeof(want) - 1 + SHA1_SIZE);
	CHECK(memcmp(made, want, sizeof(want) - 1) == 0);
	/* Its sum is right, or it could not be added to. */
	CHECK(keystore_add(made, made_len, "again", CERT, &twice, &twice_len, &e) == 0);
	CHECK(twice[11] == 2 && twice_len == made_len + (made_len - len) - 1);
	free(twice);
	for (size_t i = 0; i < made_len; i++) {
		made[i] ^= 1;
		CHECK(keystore_add(made, made_len, "a", CERT, &twice, &twice_len, &e) == -1);
		CHECK(e.code == ERR_UNSUPPORTED);
		made[i] ^= 1;
	}
	for (size_t i = 0; i < made_len; i++) {
		uint8_t *exact = malloc(i + 1);

		memcpy(exact, made, i);
		CHECK(keystore_add(exact, i, "a", CERT, &twice, &twice_len, &e) == -1);
		free(exact);
	}
	CHECK(keystore_add(empty, len, "a", "no PEM", &twice, &twice_len, &e) == -1);
	CHECK(keystore_add(empty, len, "a", "-----\n*\n-----\n", &twice, &twice_len, &e) == -1);
	free(made);
}

static void write_file(int dir, const char *path, const void *bytes, size_t n, mode_t mode)
{
	OWN_FD fd = openat(dir, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	CHECK(fd >= 0 && io_write_all(fd, bytes, n, &e) == 0 && fchmod(fd, mode) == 0);
}

static bool holds(int dir, const char *path, const char *text, mode_t mode)
{
	char got[4096] = "";
	struct stat st;

	CHECK(io_read_file(dir, path, got, sizeof(got), &e) >= 0);
	CHECK(fstatat(dir, path, &st, 0) == 0);
	return strcmp(got, text) == 0 && (st.st_mode & 07777) == mode;
}

/* Once as Debian has it, once as Fedora, once with nothing. */
static void all_places_get_it(void)
{
	char home[64], link[32] = "";
	uint8_t store[64];
	size_t len = empty_store(store);
	struct node_ca a;
	struct stat st;

	CHECK(read_text(TEXT, &a) == 0);
	in_a_home(home, sizeof(home));
	OWN_FD top = open(home, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (int kind = 0; kind < 3; kind++) {
		const char *name = &"012\0"[kind];
		char at[2] = { name[0], '\0' };

		CHECK(mkdirat(top, at, 0755) == 0);
		OWN_FD root = openat(top, at, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		CHECK(mkdirat(root, "etc", 0755) == 0);
		OWN_FD etc = openat(root, "etc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (kind < 2)
			CHECK(mkdirat(etc, "ssl", 0755) == 0);
		if (kind == 0) {
			CHECK(mkdirat(etc, "ssl/certs", 0755) == 0 &&
			      mkdirat(etc, "ssl/certs/java", 0755) == 0 &&
			      symlinkat("other.pem", etc, "ssl/certs/1a2b3c4d.0") == 0);
			write_file(etc, "ssl/certs/ca-certificates.crt", "others", 6, 0444);
			write_file(etc, "ssl/certs/java/cacerts", store, len, 0644);
		}
		if (kind == 1) {
			CHECK(mkdirat(etc, "pki", 0755) == 0 &&
			      mkdirat(etc, "pki/tls", 0755) == 0 &&
			      mkdirat(etc, "pki/tls/certs", 0755) == 0 &&
			      mkdirat(etc, "pki/x", 0755) == 0 &&
			      symlinkat("../pki/tls/certs", etc, "ssl/certs") == 0 &&
			      symlinkat("/etc/pki/x/b", etc, "pki/tls/certs/ca-bundle.crt") == 0 &&
			      symlinkat("ca-bundle.crt", etc,
					"pki/tls/certs/ca-certificates.crt") == 0);
			write_file(etc, "pki/x/b", "others\n", 7, 0444);
		}
		if (ca_trust_add(etc, &a, &e) < 0)
			printf("# %s\n", e.msg);
		CHECK(holds(etc, "ssl/certs/cordon.pem", CERT, 0644));
		CHECK(readlinkat(etc, kind == 0 ? "ssl/certs/1a2b3c4d.1" : "ssl/certs/1a2b3c4d.0",
				 link, sizeof(link)) == 10);
		CHECK(memcmp(link, "cordon.pem", 10) == 0);
		if (kind == 0) {
			CHECK(holds(etc, "ssl/certs/ca-certificates.crt", "others\n" CERT, 0444));
			CHECK(fstatat(etc, "ssl/certs/java/cacerts", &st, 0) == 0);
			CHECK(st.st_size > (off_t)len && (st.st_mode & 07777) == 0644);
		} else if (kind == 1) {
			CHECK(holds(etc, "pki/x/b", "others\n" CERT, 0444)); /* once */
		} else {
			CHECK(holds(etc, "ssl/certs/ca-certificates.crt", CERT, 0644));
		}
	}
	rmtree(AT_FDCWD, home);
}

TEST_MAIN({ "the text is taken apart", the_text_is_taken_apart }, { "it is kept", it_is_kept },
	  { "the first maker is right", the_first_maker_is_right },
	  { "a keystore gets one more", a_keystore_gets_one_more },
	  { "all places get it", all_places_get_it })
