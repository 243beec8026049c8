#include "fault.hpp"

#include <stdexcept>

namespace shardweld::hdf5 {

namespace {

herr_t take_first(unsigned /*n*/, const H5E_error2_t* error, void* text) {
    *static_cast<std::string*>(text) = error->desc != nullptr ? error->desc : "";
    return 1;
}

}  // namespace

void keep_quiet() {
    (void)H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
}

void fail(const std::string& what) {
    std::string reason;
    // Upward: the first is where it happened.
    (void)H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, take_first, &reason);
    throw std::runtime_error(what + (reason.empty() ? "" : ": " + reason));
}

}  // namespace shardweld::hdf5
