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
