#include "subverb.h"

#include <string.h>

static const struct subverb *find(const struct subverb *table, size_t n,
				  const struct args_words *words)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(words->at[0], table[i].name) == 0 &&
		    words->n == (table[i].run_two != NULL ? 3U
				 : table[i].has_argument  ? 2U
							  : 1U))
			return &table[i];
	return NULL;
}

static bool is_name(const struct subverb *table, size_t n, const char *word)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(word, table[i].name) == 0)
			return true;
	return false;
}

/* The form of one subverb is the part of the usage that begins with its name. */
static int report_form(const struct verb *v, bool known, const char *word)
{
	const char *form = v->usage, *end = strstr(form, " | ");

	if (!known)
		return args_wrong(v, "there is no cordon %s %.40s", v->name, word);
	while (strncmp(form, word, strlen(word)) != 0 && end != NULL) {
		form = end + 3;
		end = strstr(form, " | ");
	}
	return args_wrong(v, "expected: cordon %s %.*s", v->name,
			  end == NULL ? (int)strlen(form) : (int)(end - form), form);
}

int subverb_run(const struct verb *v, const struct subverb *table, size_t n, int argc, char **argv,
		void *fields)
{
	static struct args_words words;
	const struct subverb *found;
	OWN_API_CALL a = { 0 };
	struct err e = { 0 };
	int code = args_read(v, argc, argv, fields, &words, 1, 3);

	if (code != ARGS_GO)
		return code;
	found = find(table, n, &words);
	if (found == NULL)
		return report_form(v, is_name(table, n, words.at[0]), words.at[0]);
	if (api_call_open(&a, fields, API_CALL_ANSWER_MS, &e) < 0)
		return args_fail(&e);
	if (found->run_two != NULL ? found->run_two(fields, &a, words.at[1], words.at[2], &e) < 0
				   : found->run(fields, &a, words.at[1], &e) < 0)
		return found->reads_files ? args_fail(&e) : args_refused(v, &e);
	return ARGS_OK;
}
