/* Signed notes, checkpoints and verifier keys. An accepted text has one spelling: written again
 * it is the same bytes. Byte 0: which of the three. */
#include "fuzz.h"

#include "lib/tlog/tlog_note.h"

unsigned long fuzz_accepted;

static bool on_verify(void *arg, const uint8_t *key, const void *message, size_t len,
		      const uint8_t *sig)
{
	return len > 0 && ((const char *)message)[len - 1] == '\n' && sig[0] == 0;
}

static void check_checkpoint(const char *text, size_t len)
{
	char again[TLOG_CHECKPOINT_MAX];
	struct tlog_checkpoint c;
	struct err e;

	if (tlog_checkpoint_parse(text, len, &c, &e) < 0)
		return;
	fuzz_accepted++;
	assert(tlog_checkpoint_format(&c, again) == len && memcmp(again, text, len) == 0);
}

static void check_sig(const struct tlog_note *n, const struct tlog_sig *s)
{
	static const uint8_t key[TLOG_KEY];
	char name[TLOG_NAME_MAX] = "", line[TLOG_SIG_LINE_MAX];
	struct tlog_vkey k;
	uint64_t seconds;

	assert(s->name_len < sizeof(name) && s->line > n->text + n->text_len);
	memcpy(name, s->name, s->name_len);
	for (unsigned type = 1; type <= 4; type += 3) {
		assert(tlog_vkey_make(name, (enum tlog_key_type)type, key, &k));
		memcpy(k.id, s->id, sizeof(k.id));
		(void)tlog_note_verify(n, &k, on_verify, NULL, &seconds);
	}
	if (s->len > TLOG_COSIG)
		return;
	assert(tlog_sig_line(&k, s->bytes, s->len, line) == s->line_len);
	assert(memcmp(line, s->line, s->line_len) == 0);
}

static void check_note(const char *text, size_t len)
{
	struct tlog_note n;
	struct err e;

	if (tlog_note_split(text, len, &n, &e) < 0)
		return;
	fuzz_accepted++;
	assert(n.nsigs > 0 && n.text_len > 0 && n.text[n.text_len - 1] == '\n');
	for (unsigned i = 0; i < n.nsigs; i++)
		check_sig(&n, &n.sigs[i]);
	check_checkpoint(n.text, n.text_len);
}

static void check_key(const char *text, size_t len)
{
	char again[TLOG_VKEY_MAX];
	struct tlog_vkey k;
	struct err e;

	if (tlog_vkey_parse(text, len, &k, &e) < 0)
		return;
	fuzz_accepted++;
	tlog_vkey_format(&k, again);
	assert(strlen(again) == len && memcmp(again, text, len) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text;

	if (size < 1)
		return 0;
	text = fuzz_copy(data + 1, size - 1);
	if (data[0] % 3 == 0)
		check_note(text, size - 1);
	else if (data[0] % 3 == 1)
		check_checkpoint(text, size - 1);
	else
		check_key(text, size - 1);
	free(text);
	return 0;
}
