/* volume_lookup.c - the volumes that a session is to have: from their names to what the core
 * expects. Apart from spec_volumes.c, which is pure. */
#include "spec_session.h"
#include "volume.h"

int spec_volumes_find(struct spec_session *s, struct core *c, const struct tenant *t, struct err *e)
{
	struct store_volume v;

	for (unsigned i = s->first_volume; i < s->spec.nmounts; i++) {
		if (volume_find(c, t, s->spec.mounts[i].source, &v, e) < 0)
			return -1;
		volume_line_write(&v, s->sources[i]);
		s->spec.mounts[i].source = s->sources[i];
	}
	return 0;
}
