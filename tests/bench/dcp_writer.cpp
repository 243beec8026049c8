#include "dcp_writer.hpp"

#include <utility>

namespace shardweld::bench {

DcpFile::DcpFile(const std::filesystem::path& directory, std::string name)
    : name_(std::move(name)), file_(directory / name_) {}

DcpPlace DcpFile::add(const TorchPickle& content, const Values& values) {
    const Bytes begin = file_.position();
    append_archive(file_, "archive", content, values);
    return {name_, begin, file_.position() - begin};
}

}  // namespace shardweld::bench
