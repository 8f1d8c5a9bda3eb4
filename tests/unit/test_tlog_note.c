/* Checkpoints and signed notes: published examples, and everything that readers refuse. */
#include "test.h"

#include "lib/base/base64.h"
#include "lib/tlog/tlog_note.h"

#define DASH "\xe2\x80\x94 "

/* Of golang.org/x/mod/sumdb/note. */
#define PETER "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
#define PETER_TEXT                                                   \
	"If you think cryptography is the answer to your problem,\n" \
	"then you don't know what your problem is.\n"
#define PETER_SIG                                                                                 \
	"x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBw" \
	"JnAM="
#define PETER_NOTE PETER_TEXT "\n" DASH "PeterNeumann " PETER_SIG "\n"

static int split(const char *text, struct tlog_note *ret)
{
	struct err e;

	return tlog_note_split(text, strlen(text), ret, &e);
}

static int parse_key(const char *text, struct tlog_vkey *ret)
{
	struct err e;

	return tlog_vkey_parse(text, strlen(text), ret, &e);
}

static void verifier_keys(void)
{
	static const char *const good[] = {
		PETER,
		"sum.golang.org+033de0ae+Ac4zctda0e5eza+HJyk9SxEdh+s3Ux18htTTAD8OuAn8",
	};
	static const char *const bad[] = {
		"",
		"PeterNeumann",
		"+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW",
		"Peter Neumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW",
		"PeterNeumann+C74F20A3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW",
		"PeterNeumann+c74f20a4+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW",
		"PeterNeumanm+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW",
		"PeterNeumann+c74f20a3+AZpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW",
		"PeterNeumann+c74f20a3+CRpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW",
		"PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10T",
		"PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TWAA",
		PETER "\n",
	};
	char text[TLOG_VKEY_MAX];
	struct tlog_vkey k;

	for (size_t i = 0; i < COUNT(good); i++) {
		CHECK(parse_key(good[i], &k) == 0 && k.type == TLOG_KEY_ED25519);
		tlog_vkey_format(&k, text);
		CHECK_STR(text, good[i]);
	}
	for (size_t i = 0; i < COUNT(bad); i++)
		CHECK(parse_key(bad[i], &k) < 0);
	/* The same key as a witness has another id. */
	CHECK(parse_key(PETER, &k) == 0);
	CHECK(tlog_vkey_make("PeterNeumann", TLOG_KEY_COSIGNATURE, k.key, &k));
	tlog_vkey_format(&k, text);
	CHECK(strncmp(text, "PeterNeumann+c74f20a3", 21) != 0 && parse_key(text, &k) == 0);
}

static const char *expected;
static const uint8_t *expected_key;
static unsigned asked;

/* Says yes to one message. */
static bool on_verify(void *arg, const uint8_t *key, const void *message, size_t len,
		      const uint8_t *sig)
{
	asked++;
	CHECK(arg == &asked && memcmp(key, expected_key, TLOG_KEY) == 0);
	return len == strlen(expected) && memcmp(message, expected, len) == 0 && sig[0] != 0xff;
}

static void a_published_note(void)
{
	struct tlog_note n;
	struct tlog_vkey k, other;
	uint8_t key[TLOG_KEY] = { 1 };
	char line[TLOG_SIG_LINE_MAX];

	CHECK(parse_key(PETER, &k) == 0 && split(PETER_NOTE, &n) == 0);
	CHECK(n.text_len == strlen(PETER_TEXT) && n.nsigs == 1 && n.sigs[0].len == TLOG_SIG);
	expected = PETER_TEXT;
	expected_key = k.key;
	CHECK(tlog_note_verify(&n, &k, on_verify, &asked, NULL) == TLOG_GOOD && asked == 1);
	CHECK(tlog_sig_line(&k, n.sigs[0].bytes, TLOG_SIG, line) == n.sigs[0].line_len);
	CHECK_STR(line, DASH "PeterNeumann " PETER_SIG "\n");
	expected = "";
	CHECK(tlog_note_verify(&n, &k, on_verify, &asked, NULL) == TLOG_BAD);
	CHECK(tlog_vkey_make("PeterNeumann", TLOG_KEY_ED25519, key, &other));
	CHECK(tlog_note_verify(&n, &other, on_verify, &asked, NULL) == TLOG_UNSIGNED);
	CHECK(tlog_vkey_make("Peter", TLOG_KEY_ED25519, k.key, &other));
	CHECK(tlog_note_verify(&n, &other, on_verify, &asked, NULL) == TLOG_UNSIGNED);
}

static void malformed_notes(void)
{
	static const char *const bad[] = {
		"",
		"\n",
		"\n\n",
		"text\n",
		"text\n\n",
		"text\n\n\n",
		"text\n" DASH "PeterNeumann " PETER_SIG "\n",
		"text\n\n" DASH "PeterNeumann " PETER_SIG,
		"text\n\n" DASH "PeterNeumann " PETER_SIG "\n\n",
		"text\n\n" DASH "PeterNeumann  " PETER_SIG "\n",
		"text\n\n" DASH " " PETER_SIG "\n",
		"text\n\n" DASH "Peter+Neumann " PETER_SIG "\n",
		"text\n\n" DASH PETER_SIG "\n",
		"text\n\n" DASH "PeterNeumann\n",
		"text\n\n" DASH "PeterNeumann \n",
		"text\n\n" DASH "PeterNeumann AAAA\n",
		"text\n\n" DASH "PeterNeumann AAAAAA==\n",
		"text\n\n" DASH "PeterNeumann AAAAAAA\n",
		"text\n\n" DASH "PeterNeumann AAAAAAB=\n",
		"text\n\n- PeterNeumann " PETER_SIG "\n",
		"te\rxt\n\n" DASH "PeterNeumann " PETER_SIG "\n",
		"t\xc3\xa9xt\n\n" DASH "PeterNeumann " PETER_SIG "\n",
		"text\n\n" DASH "PeterNeumann " PETER_SIG "\nmore\n",
	};
	struct tlog_note n;

	for (size_t i = 0; i < COUNT(bad); i++)
		CHECK(split(bad[i], &n) < 0);
	/* An empty line in the text, and a signature of another algorithm. */
	CHECK(split("a\n\nb\n\n" DASH "x AAAAAAA=\n" DASH "PeterNeumann " PETER_SIG "\n", &n) == 0);
	CHECK(n.text_len == 5 && n.nsigs == 2 && n.sigs[0].len == 1);
}

static void notes_are_bounded(void)
{
	static char note[TLOG_NOTE_MAX + 64];
	static const char line[] = DASH "x AAAAAAA=\n";
	struct tlog_note n;
	size_t at = 3;

	memcpy(note, "a\n\n", 3);
	for (unsigned i = 0; i < TLOG_SIGS_MAX; i++, at += sizeof(line) - 1)
		memcpy(note + at, line, sizeof(line));
	CHECK(split(note, &n) == 0 && n.nsigs == TLOG_SIGS_MAX);
	memcpy(note + at, line, sizeof(line));
	CHECK(split(note, &n) < 0);
	memset(note, 'a', sizeof(note) - 1);
	memcpy(note + TLOG_NOTE_MAX - 2 - (sizeof(line) - 1), "\n\n", 2);
	memcpy(note + TLOG_NOTE_MAX - (sizeof(line) - 1), line, sizeof(line));
	CHECK(strlen(note) == TLOG_NOTE_MAX && split(note, &n) == 0);
	memmove(note + 1, note, TLOG_NOTE_MAX + 1);
	CHECK(strlen(note) == TLOG_NOTE_MAX + 1 && split(note, &n) < 0);
}

static void cosignatures(void)
{
	uint8_t key[TLOG_KEY] = { 7 }, sig[TLOG_COSIG] = { 0, 0, 0, 0, 0x6a, 0, 0, 1 };
	struct tlog_vkey k;
	struct tlog_note n;
	uint64_t seconds;
	char note[512], line[TLOG_SIG_LINE_MAX];

	CHECK(tlog_vkey_make("witness.example/w1", TLOG_KEY_COSIGNATURE, key, &k));
	CHECK(tlog_sig_line(&k, sig, sizeof(sig), line) < sizeof(line));
	(void)snprintf(note, sizeof(note), "a\n1\nb\n\n%s", line);
	expected = "cosignature/v1\ntime 1778384897\na\n1\nb\n";
	expected_key = k.key;
	CHECK(split(note, &n) == 0 && n.sigs[0].len == TLOG_COSIG);
	CHECK(tlog_note_verify(&n, &k, on_verify, &asked, &seconds) == TLOG_GOOD &&
	      seconds == 1778384897);
	/* Without the time it is too short, and a time beyond all dates is refused. */
	(void)tlog_sig_line(&k, sig, TLOG_SIG, line);
	(void)snprintf(note, sizeof(note), "a\n1\nb\n\n%s", line);
	CHECK(split(note, &n) == 0);
	CHECK(tlog_note_verify(&n, &k, on_verify, &asked, &seconds) == TLOG_BAD && seconds == 0);
	sig[0] = 0x80;
	expected = "cosignature/v1\ntime 9223372038633160705\na\n1\nb\n";
	(void)tlog_sig_line(&k, sig, sizeof(sig), line);
	(void)snprintf(note, sizeof(note), "a\n1\nb\n\n%s", line);
	CHECK(split(note, &n) == 0);
	CHECK(tlog_note_verify(&n, &k, on_verify, &asked, &seconds) == TLOG_BAD);
}

#define ROOT "CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I="

static void checkpoints(void)
{
	static const char *const good[] = {
		"cordon.ab12/ten_1/1\n0\n" ROOT "\n",
		"x/1\n9223372036854775807\n" ROOT "\n",
	};
	static const char *const bad[] = {
		"",
		"\n0\n" ROOT "\n",
		"a b\n0\n" ROOT "\n",
		"a+b\n0\n" ROOT "\n",
		"a\n\n" ROOT "\n",
		"a\n00\n" ROOT "\n",
		"a\n01\n" ROOT "\n",
		"a\n+1\n" ROOT "\n",
		"a\n-1\n" ROOT "\n",
		"a\n1 \n" ROOT "\n",
		"a\n9223372036854775808\n" ROOT "\n",
		"a\n18446744073709551616\n" ROOT "\n",
		"a\n1\n" ROOT,
		"a\n1\n" ROOT "\nmore\n",
		"a\n1\n" ROOT "\n\n",
		"a\n1\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2\n",
		"a\n1\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2J=\n",
		"a\n1\n" ROOT "AAAA\n",
		"a\n1\n",
		"a\r\n1\n" ROOT "\n",
	};
	struct tlog_checkpoint c;
	char text[TLOG_CHECKPOINT_MAX];
	struct err e;

	for (size_t i = 0; i < COUNT(good); i++) {
		CHECK(tlog_checkpoint_parse(good[i], strlen(good[i]), &c, &e) == 0);
		CHECK(tlog_checkpoint_format(&c, text) == strlen(good[i]));
		CHECK_STR(text, good[i]);
	}
	for (size_t i = 0; i < COUNT(bad); i++)
		CHECK(tlog_checkpoint_parse(bad[i], strlen(bad[i]), &c, &e) < 0);
	memset(c.origin, 'a', sizeof(c.origin) - 1);
	c.origin[sizeof(c.origin) - 1] = '\0';
	CHECK(tlog_checkpoint_format(&c, text) > 0 && strlen(text) < sizeof(text));
	c.origin[0] = '\n';
	CHECK(tlog_checkpoint_format(&c, text) == 0);
}

int main(void)
{
	static const struct test tests[] = {
		{ "verifier keys", verifier_keys },	{ "a published note", a_published_note },
		{ "malformed notes", malformed_notes }, { "notes are bounded", notes_are_bounded },
		{ "cosignatures", cosignatures },	{ "checkpoints", checkpoints },
	};

	return test_run_all(tests, COUNT(tests));
}
