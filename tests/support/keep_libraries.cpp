// Libraries stay loaded to the end, so that a leak checker can name whose memory it is
// (LD_PRELOAD).
extern "C" int dlclose(void* /*library*/) {
    return 0;
}
