/* template_reference.c - see template_reference.h. */
#include "template_reference.h"

#include <stdio.h>
#include <string.h>

#include "member.h"
#include "show.h"

static bool has_default(const json_t *tags)
{
	const json_t *tag;
	size_t i;

	json_array_foreach(tags, i, tag)
	{
		const char *text = json_string_value(tag);

		if (text != NULL && strcmp(text, "default") == 0)
			return true;
	}
	return false;
}

void template_reference_print(const json_t *answer, const char *member)
{
	const json_t *tags = json_object_get(answer, "tags");
	const char *first = json_string_value(json_array_get(tags, 0));

	show_text(member_text(answer, member, "?"), stdout);
	if (first != NULL && !has_default(tags)) {
		(void)putchar(':');
		show_text(first, stdout);
	}
	(void)putchar('\n');
}
