// Beside a training job, whose processor time, disk and page cache come first.
#pragma once

#include "core/path.hpp"

namespace shardweld::app::watching {

/// From now on this process and the programs that it starts take the processor and the
/// disk only where nobody else wants them. What the system refuses is left as it is.
void be_polite();

/// The pages of an output's files leave the page cache, as far as they are on the disk: nobody may
/// read them for long. Local; never fails.
void leave_cache(const fs::path& output);

}  // namespace shardweld::app::watching
