// What of other programs, or of no use alone, may be given for a checkpoint: told by the names in a
// directory. How single files begin: containers/file_sign.hpp.
#pragma once

#include "formats/format.hpp"

#include "directory_listing.hpp"

namespace shardweld::formats {

/// A sign of what the directory is, a format's own or one of programs that no format here is of;
/// nullptr when nothing gives it away.
const Sign* sign_in(const Listing& listing);

}  // namespace shardweld::formats
