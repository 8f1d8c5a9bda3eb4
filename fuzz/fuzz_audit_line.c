/* Lines of exported audit logs, and the records in them. A line without escapes is the same after
 * it was read, so it can be read again. */
#include "fuzz.h"

#include "cmd/client/audit_line.h"

unsigned long fuzz_accepted;

static void check_side(struct audit_text side)
{
	struct audit_value v;
	size_t left = side.n;

	while (audit_line_side(&side, &v)) {
		assert(v.name.n > 0 && v.name.n <= AUDIT_FIELD_MAX && side.n < left);
		left = side.n;
		assert(v.value.p + v.value.n == side.p);
	}
	assert(side.n == 0);
}

static void check_record(struct audit_text record)
{
	struct audit_record_head h;
	struct audit_text sealed = audit_record_sealed(record), name;
	struct audit_new_key key;
	uint64_t from, to;
	uint8_t hash[32];
	size_t n = 0;

	if (audit_record_read(record, &h)) {
		fuzz_accepted++;
		assert(record.n <= AUDIT_RECORD_MAX && h.type.n > 0 && h.type.n <= AUDIT_TYPE_MAX);
		assert(h.time_ms > -INT64_C(70000000000000) &&
		       h.time_ms < INT64_C(300000000000000));
	}
	for (struct audit_text rest = sealed; audit_record_seal(&rest, &name, hash); n++)
		assert(name.n > 0 && name.n <= AUDIT_FIELD_MAX);
	assert((n > 0) == (sealed.n > 0) && n <= sealed.n / 71);
	if (audit_record_new_key(record, &key))
		assert(key.vkey.p >= record.p && key.vkey.p + key.vkey.n < record.p + record.n &&
		       key.proof.n < record.n);
	if (audit_record_pruned(record, &from, &to))
		fuzz_accepted++;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct audit_line l, again;
	char *line;

	if (size == 0)
		return 0;
	line = fuzz_copy(data, size);
	if (audit_line_read(line, size, &l)) {
		fuzz_accepted++;
		assert(l.text.n <= size && l.side.n <= size);
		check_side(l.side);
		if (l.kind == AUDIT_LINE_LEAF)
			check_record(l.text);
		if (l.side.n == 0 && memchr(data, '\\', size) == NULL)
			assert(audit_line_read(line, size, &again) && again.index == l.index);
	} else {
		/* As a record, too: what a line has is decoded already. */
		memcpy(line, data, size);
		check_record((struct audit_text){ line, size });
	}
	free(line);
	return 0;
}
