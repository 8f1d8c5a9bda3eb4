/* member.c - see member.h. Used by every file that reads an answer. No function fails or prints,
 * so callers can chain them over objects that may be missing. */
#include "cmd/client/member.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

/* ---- reading members. No function here fails: a server of another version may leave out a
 * member or give another type, and a table then shows a dash and not an error. */

const char *member_text(const json_t *object, const char *name, const char *otherwise)
{
	const char *text = json_string_value(json_object_get(object, name));

	return text == NULL ? otherwise : text;
}

/* Fractions lose their part behind the point. Negative numbers count as missing. The bound keeps
 * the conversion defined. */
uint64_t member_number(const json_t *object, const char *name, uint64_t otherwise)
{
	const json_t *v = json_object_get(object, name);
	double real;

	if (json_is_integer(v))
		return json_integer_value(v) < 0 ? otherwise : (uint64_t)json_integer_value(v);
	if (!json_is_real(v))
		return otherwise;
	real = json_real_value(v);
	return real >= 0 && real < 9e18 ? (uint64_t)real : otherwise;
}

bool member_bool(const json_t *object, const char *name)
{
	return json_is_true(json_object_get(object, name));
}

/* The empty array is made once and shared. Without memory it is NULL, which jansson's functions
 * take for empty. */
const json_t *member_group(const json_t *object, const char *name)
{
	static json_t *none;
	const json_t *v = json_object_get(object, name);

	if (none == NULL)
		none = json_array();
	return json_is_object(v) || json_is_array(v) ? v : none;
}

/* Digits at text, exactly n of them: the number, or -1. */
static int member_digits(const char *text, size_t n)
{
	int value = 0;

	for (size_t i = 0; i < n; i++) {
		if (text[i] < '0' || text[i] > '9')
			return -1;
		value = value * 10 + (text[i] - '0');
	}
	return value;
}

/* The form is checked by its digits and signs first, so the numbers cannot be negative or too
 * long. Fractions have three digits or are absent. */
int64_t member_parse_time(const char *text)
{
	static const char form[] = "dddd-dd-ddTdd:dd:dd";
	struct tm tm = { 0 };
	int64_t ms = 0;

	for (size_t i = 0; i < sizeof(form) - 1; i++)
		if (form[i] == 'd' ? text[i] < '0' || text[i] > '9' : text[i] != form[i])
			return -1;
	tm.tm_year = member_digits(text, 4) - 1900;
	tm.tm_mon = member_digits(text + 5, 2) - 1;
	tm.tm_mday = member_digits(text + 8, 2);
	tm.tm_hour = member_digits(text + 11, 2);
	tm.tm_min = member_digits(text + 14, 2);
	tm.tm_sec = member_digits(text + 17, 2);
	text += sizeof(form) - 1;
	if (*text == '.') {
		if (member_digits(text + 1, 1) < 0 || member_digits(text + 2, 1) < 0 ||
		    member_digits(text + 3, 1) < 0)
			return -1;
		ms = member_digits(text + 1, 3);
		text += 4;
	}
	if (strcmp(text, "Z") != 0 || tm.tm_mon < 0 || tm.tm_mon > 11)
		return -1;
	return (int64_t)timegm(&tm) * 1000 + ms;
}

int64_t member_time(const json_t *object, const char *name)
{
	return member_parse_time(member_text(object, name, ""));
}
