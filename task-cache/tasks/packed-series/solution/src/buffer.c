#include <stdio.h>
#include <stdlib.h>

#include "codec.h"

static void *grown(void *old, size_t room, size_t size)
{
    void *data;

    if (room > SIZE_MAX / size || !(data = realloc(old, room * size))) {
        fputs("dpack: out of memory\n", stderr);
        exit(1);
    }
    return data;
}

void buffer_put(struct buffer *b, unsigned char byte)
{
    if (b->used == b->room) {
        b->room = b->room ? b->room * 2 : 64;
        b->data = grown(b->data, b->room, 1);
    }
    b->data[b->used++] = byte;
}

void buffer_read_stdin(struct buffer *b)
{
    int c;

    while ((c = getchar()) != EOF)
        buffer_put(b, (unsigned char)c);
}

void buffer_free(struct buffer *b)
{
    free(b->data);
}

void series_add(struct series *s, bool present, int64_t value)
{
    if (s->count == s->room) {
        s->room = s->room ? s->room * 2 : 64;
        s->value = grown(s->value, s->room, sizeof *s->value);
        s->present = grown(s->present, s->room, sizeof *s->present);
    }
    s->value[s->count] = value;
    s->present[s->count++] = present;
}

void series_free(struct series *s)
{
    free(s->value);
    free(s->present);
}
