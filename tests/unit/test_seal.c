/* Boxes: what goes in comes out, with the same key and about the same thing only. */
#include "daemon/secrets/seal.h"

#include <string.h>

#include "support.h"

#define A "a:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n"
#define B "b:AQECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n"

static struct seal *keys(const char *text)
{
	struct seal *s = NULL;
	struct err e;

	CHECK(seal_read(text, strlen(text), &s, &e) == 0);
	return s;
}

static void round_trip(void)
{
	static const size_t lens[] = { 0, 1, 15, 16, 17, 65536 };
	struct seal *s = keys(A B);
	static char value[65536];
	struct err e;

	for (size_t i = 0; i < sizeof(value); i++)
		value[i] = (char)(i * 7);
	for (size_t i = 0; i < COUNT(lens); i++) {
		uint8_t *box = NULL, *other = NULL;
		size_t len = 0, other_len = 0, n = 0;
		char *back = NULL;

		CHECK(seal_close(s, "t\nn\n1", value, lens[i], &box, &len, &e) == 0);
		CHECK(seal_close(s, "t\nn\n1", value, lens[i], &other, &other_len, &e) == 0);
		CHECK(len == other_len && memcmp(box, other, len) != 0); /* another nonce */
		CHECK(lens[i] < 16 || memmem(box, len, value, lens[i]) == NULL);
		CHECK(seal_open(s, "t\nn\n1", box, len, &back, &n, &e) == 0);
		CHECK(n == lens[i] && memcmp(back, value, n) == 0 && back[n] == '\0');
		CHECK(seal_is_current(s, box, len));
		seal_wipe(back, n);
		free(box);
		free(other);
	}
	seal_free(s);
}

static void not_opened(const struct seal *s, const char *about, const uint8_t *box, size_t len,
		       enum err_code want)
{
	char *back = NULL;
	size_t n;
	struct err e = { 0 };

	CHECK(seal_open(s, about, box, len, &back, &n, &e) < 0);
	CHECK(e.code == want && back == NULL);
}

/* Every bit of it counts. */
static void tampered(void)
{
	struct seal *s = keys(A), *both = keys(B A), *other = keys(B);
	uint8_t *box = NULL;
	size_t len = 0, n = 0;
	char *back = NULL;
	struct err e;

	CHECK(seal_close(s, "about", "value", 5, &box, &len, &e) == 0);
	for (size_t i = 0; i < len * 8; i++) {
		box[i / 8] ^= (uint8_t)(1U << (i % 8));
		CHECK(seal_open(s, "about", box, len, &back, &n, &e) < 0);
		box[i / 8] ^= (uint8_t)(1U << (i % 8));
	}
	for (size_t i = 0; i < len; i++)
		not_opened(s, "about", box, i, ERR_INVALID);
	not_opened(s, "about ", box, len, ERR_INVALID);
	not_opened(s, "", box, len, ERR_INVALID);
	not_opened(other, "about", box, len, ERR_NOT_FOUND);
	CHECK(seal_open(both, "about", box, len, &back, &n, &e) == 0);
	CHECK(!seal_is_current(both, box, len) && seal_is_current(s, box, len));
	seal_wipe(back, n);
	free(box);
	seal_free(s);
	seal_free(both);
	seal_free(other);
}

static void lists(void)
{
	static const char *const bad[] = {
		"",
		"\n# nothing\n",
		"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n",
		":AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n",
		"a:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8\n",
		"a:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHg==\n",
		"a:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh_=\n",
		"a b:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n",
		"a123456789012345678901234567890123:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n",
		A A,
	};
	char line[SEAL_LINE_MAX], many[SEAL_KEYS_MAX + 1][SEAL_LINE_MAX];
	char text[sizeof(many)] = "";
	struct seal *s = NULL;
	struct err e;

	for (size_t i = 0; i < COUNT(bad); i++)
		CHECK(seal_read(bad[i], strlen(bad[i]), &s, &e) < 0);
	seal_free(keys("# of us\r\n\r\n" A "\n" B));
	seal_free(keys("a:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=")); /* no newline */
	seal_make_line("k1", line);
	CHECK(strlen(line) == 3 + 44 + 1);
	seal_free(keys(line));
	for (int i = 0; i <= SEAL_KEYS_MAX; i++) {
		char id[8];

		(void)snprintf(id, sizeof(id), "k%d", i);
		seal_make_line(id, line);
		if (i == SEAL_KEYS_MAX)
			seal_free(keys(text));
		(void)snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s", line);
	}
	CHECK(seal_read(text, strlen(text), &s, &e) < 0 && e.code == ERR_LIMIT);
	seal_free(NULL);
}

TEST_MAIN({ "round trip", round_trip }, { "tampered", tampered }, { "lists", lists })
