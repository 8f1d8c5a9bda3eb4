/* build_log.c - what a build says: entries of its log in the store, bounded in number and bytes. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "build_private.h"
#include "log.h"

static const char *const level_names[BUILD_LEVELS] = { "debug", "info", "warn", "error" };

const char *build_level_name(uint32_t level)
{
	return level < BUILD_LEVELS ? level_names[level] : "info";
}

const char *build_log_prefix(const struct build *b, char ret[40])
{
	if (b->finalizing)
		return "[finalize]";
	if (!b->base_done)
		return "[base]";
	(void)snprintf(ret, 40, "[builder %u/%u]", b->step + 1, b->recipe.nsteps);
	return ret;
}

/* The last entries are kept for errors: why a build failed is always in its log. */
static bool has_room(struct build *b, enum build_level level, size_t n)
{
	if (level == BUILD_FAULT)
		return b->entries < BUILD_ENTRIES_MAX + 16;
	if (b->entries >= BUILD_ENTRIES_MAX || b->log_bytes + n > BUILD_LOG_BYTES_MAX)
		return false;
	return true;
}

void build_log_text(struct build *b, enum build_level level, const char *text)
{
	char step[STORE_BUILD_STEP_MAX];
	struct store_build_entry row = { .seq = b->entries,
					 .time_ms = core_now_ms(),
					 .level = level,
					 .step = build_step_word(b, step),
					 .message = text };
	struct err e;

	if (!has_room(b, level, strlen(text)))
		return;
	b->log_bytes += strlen(text) + 64;
	if (b->entries == BUILD_ENTRIES_MAX - 1 || b->log_bytes > BUILD_LOG_BYTES_MAX)
		row.message = "more output follows, which is not kept";
	if (store_build_log_add(core_store(b->core), b->row.id, &row, &e) < 0)
		log_warn("entry of a build's log could not be written", "build=%s error=%s",
			 b->row.id, e.msg);
	else
		b->entries++;
}

void build_log(struct build *b, enum build_level level, const char *fmt, ...)
{
	char text[BUILD_LINE_MAX];
	va_list args;

	va_start(args, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	build_log_text(b, level, text);
}
