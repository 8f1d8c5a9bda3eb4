#include "config_doc.h"

#include <string.h>

#include "config_table.h"
#include "config_value.h"

static const char *default_of(const struct config_setting *s)
{
	if (s->shown != NULL)
		return s->shown;
	return *s->value == '\0' ? "none" : s->value;
}

void config_doc_help(FILE *to)
{
	for (size_t i = 0; i < config_table_size; i++) {
		const struct config_setting *s = &config_table[i];
		char left[64], name[48];
		size_t n = 0;

		for (; n < sizeof(name) - 1 && s->name[n] != '\0'; n++)
			name[n] = (char)(s->name[n] == '_' ? '-' : s->name[n]);
		name[n] = '\0';
		if (s->group != NULL)
			(void)fprintf(to, "\n%s:\n", s->group);
		(void)snprintf(left, sizeof(left), "--%s%s%s", name,
			       s->kind == CONFIG_BOOL ? "" : " ",
			       s->kind == CONFIG_BOOL ? "[=no]" : s->argument);
		(void)fprintf(to, "  %-38s %s (default: %s)\n", left, s->help, default_of(s));
	}
}

/* Writes a number as the value of this setting would be written. */
static void put_number(const struct config_setting *s, uint64_t number, FILE *to)
{
	struct config c;
	char text[CONFIG_VALUE_MAX];

	memset(&c, 0, sizeof(c));
	memcpy((char *)&c + s->offset, &number, sizeof(number));
	config_value_format(s, &c, text, sizeof(text));
	(void)fprintf(to, "%s", text);
}

static void put_range(const struct config_setting *s, FILE *to)
{
	switch (s->kind) {
	case CONFIG_COUNT:
	case CONFIG_BYTES:
	case CONFIG_TIME:
	case CONFIG_MILLIS:
		put_number(s, s->min, to);
		(void)fprintf(to, " to ");
		put_number(s, s->max, to);
		return;
	case CONFIG_BOOL:
		(void)fprintf(to, "yes, no");
		return;
	case CONFIG_CHOICE:
		for (size_t i = 0; s->choices[i] != NULL; i++)
			(void)fprintf(to, "%s%s", i == 0 ? "" : ", ", s->choices[i]);
		return;
	case CONFIG_TEXT:
	case CONFIG_PATH:
	case CONFIG_DOMAIN:
	case CONFIG_ROOTS:
	case CONFIG_KINDS:
		break;
	}
	(void)fprintf(to, "%s", s->argument);
}

void config_doc_markdown(FILE *to)
{
	(void)fprintf(
		to,
		"# Configuration\n\n"
		"<!-- Made from src/config/config_table.c: build/tests/unit/config_doc "
		"--print. A test "
		"compares the two. -->\n\n"
		"`cordon serve` reads its settings from a file, from the environment and "
		"from its command "
		"line:\n\n"
		"| where | how | |\n|---|---|---|\n"
		"| flag | `--memory-max 4G` or `--memory-max=4G` | wins over all |\n"
		"| environment | `CORDON_MEMORY_MAX=4G` | wins over the file |\n"
		"| file | `memory_max = 4G` | wins over the default |\n\n"
		"The file is the one that `--config FILE` or `$CORDON_CONFIG` names, else "
		"`/etc/cordon/cordon.conf`, for a user `~/.config/cordon/cordon.conf`, if it "
		"is there. One "
		"setting a line; `#` begins a comment at the start of a line or after a "
		"blank. An unknown "
		"name, a value out of its range and a setting that is set twice are "
		"errors that "
		"name file, line and setting. `cordon serve --check` only checks.\n\n"
		"SIGHUP (`systemctl reload cordon`) reads the file again and restarts all programs "
		"of the server. Running sessions keep their limits, templates and mounts; new "
		"sessions get the new settings.\n\n"
		"Sizes are bytes or have a unit (`64K`, `512M`, `1.5G`), powers of 1,024. "
		"Times are "
		"seconds or have a unit (`500ms`, `30s`, `5m`, `2h`, `7d`). A default is "
		"for sessions that do not "
		"set the value; a maximum is what a session may set. A default may not be larger "
		"than its "
		"maximum.\n");
	for (size_t i = 0; i < config_table_size; i++) {
		const struct config_setting *s = &config_table[i];

		if (s->group != NULL)
			(void)fprintf(to,
				      "\n## %s\n\n| setting | values | default | meaning |\n"
				      "|---|---|---|---|\n",
				      s->group);
		(void)fprintf(to, "| `%s` | ", s->name);
		put_range(s, to);
		(void)fprintf(to, " | %s | %s", default_of(s), s->help);
		if (s->alias != NULL)
			(void)fprintf(to, "; `--%s` for short", s->alias);
		(void)fprintf(to, " |\n");
	}
}
