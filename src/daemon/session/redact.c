/* redact.c - see redact.h. */
#include "daemon/session/redact.h"

#include <stdio.h>
#include <string.h>

int redact_check(const char *entry, struct err *e)
{
	const char *pattern = entry + strlen(REDACT_PATTERN);
	enum mask_name name;

	if (mask_name_read(entry, &name))
		return 0;
	if (strncmp(entry, REDACT_PATTERN, strlen(REDACT_PATTERN)) != 0)
		return err_set(
			e, ERR_INVALID,
			"%.40s: not one of email, phone, card, iban, ip, token, or pattern:...",
			entry);
	if (strlen(pattern) > REDACT_PATTERN_MAX || strpbrk(pattern, "\n\r") != NULL)
		return err_set(e, ERR_INVALID, "a pattern has at most %d bytes in one line",
			       REDACT_PATTERN_MAX);
	return mask_pattern_check(pattern, e);
}

/* Is this line one of the lines? */
static bool redact_has(const char *lines, const char *line, size_t n)
{
	while (*lines != '\0') {
		size_t len = strcspn(lines, "\n");

		if (len == n && memcmp(lines, line, n) == 0)
			return true;
		lines += len + (lines[len] == '\n');
	}
	return false;
}

static int redact_add(const char *lines, char *ret, unsigned *n, struct err *e)
{
	while (lines != NULL && *lines != '\0') {
		size_t len = strcspn(lines, "\n"), used = strlen(ret);

		if (!redact_has(ret, lines, len)) {
			if (*n == REDACT_ALL || used + len + 2 > REDACT_ALL_TEXT_MAX)
				return err_set(e, ERR_LIMIT,
					       "redact: more than %d entries with those of the "
					       "tenant",
					       REDACT_ALL);
			(void)snprintf(ret + used, REDACT_ALL_TEXT_MAX - used, "%s%.*s",
				       used == 0 ? "" : "\n", (int)len, lines);
			(*n)++;
		}
		lines += len + (lines[len] == '\n');
	}
	return 0;
}

int redact_join(const char *tenant, const char *own, char ret[REDACT_ALL_TEXT_MAX], struct err *e)
{
	unsigned n = 0;

	ret[0] = '\0';
	return redact_add(tenant, ret, &n, e) < 0 ? -1 : redact_add(own, ret, &n, e);
}

unsigned redact_names(const char *words)
{
	unsigned names = 0;

	while (*words != '\0') {
		size_t n = strcspn(words, " ");
		char word[16];
		enum mask_name name;

		if (n < sizeof(word)) {
			memcpy(word, words, n);
			word[n] = '\0';
			if (mask_name_read(word, &name))
				names |= 1U << name;
		}
		words += n + (words[n] == ' ');
	}
	return names;
}

void redact_counts(const uint64_t counts[MASK_COUNTS], char *ret, size_t cap)
{
	size_t used = 0;

	ret[0] = '\0';
	for (unsigned i = 0; i < MASK_COUNTS && used < cap; i++)
		if (counts[i] > 0)
			used += (size_t)snprintf(ret + used, cap - used, "%s\t%llu\n",
						 i == MASK_OF_PATTERN ? "pattern"
								      : mask_name_words[i],
						 (unsigned long long)counts[i]);
}
