// How a report of a run is known: by its fields.
#pragma once

namespace shardweld::io {
class InputFile;
}  // namespace shardweld::io

namespace shardweld::publish {

/// Whether the file is a report. Its text is not kept in memory.
bool holds_report(const io::InputFile& file);

}  // namespace shardweld::publish
