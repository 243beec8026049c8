// The files that a merge would write, their bytes made when they are asked for.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "app/merge/unwritten.hpp"
#include "core/index.hpp"
#include "core/lists.hpp"
#include "execute/listeners/stated_sums.hpp"
#include "outputs/format.hpp"
#include "publish/assets.hpp"

namespace shardweld::mount {

/// Asked now and then by what may take long: whether nobody waits for it any more.
using GivesUp = std::function<bool()>;

/// What is made at once of a file whose parts cost as much as strips.
inline constexpr Bytes kStrip = Bytes{4} << 20U;

/// A file as a directory shows it.
struct ServedFile {
    std::string name;  ///< below the model's directory, with its directories in front
    Bytes size = 0;
    bool in_strips = false;  ///< read best in whole ones, as a tensor of it is computed or turned
};

/// The files of a model that is not written. Any number of threads may read.
class UnwrittenFiles {
  public:
    /// `card`: the text of README.md; "": none. Error(unsupported) as by the output's format.
    UnwrittenFiles(app::Unwritten& model, const std::string& card);

    [[nodiscard]] const std::vector<ServedFile>& files() const { return files_; }
    /// When the newest of the files was written that they are made of, since 1970.
    [[nodiscard]] Index modified_ns() const;
    [[nodiscard]] Bytes bytes() const { return add_up(files_, &ServedFile::size); }

    /// Fills `out` from `offset` of a file, which ends behind it. Error(io) where a source is no
    /// longer what it was, Error(corrupt) where it is damaged, as far as that was seen.
    void read(std::size_t file, Bytes offset, ByteSpan out);

  private:
    void settle_frames();
    void add_tensor_file(std::size_t at);
    void add_asset(publish::Asset asset);
    void read_made(std::size_t file, Bytes offset, ByteSpan out);
    void read_tensor(std::uint32_t tensor, Bytes begin, ByteSpan out);
    [[nodiscard]] Bytes begin_of(std::uint32_t tensor) const;
    [[nodiscard]] Bytes end_of(std::uint32_t tensor) const;
    void fill_between(std::size_t file, Bytes offset, ByteSpan out);
    void put_sums(const outputs::Frame& frame, Bytes offset, ByteSpan out);
    std::shared_ptr<const outputs::Frame> frame_of(std::size_t file);
    std::uint32_t sum_of(std::uint32_t tensor);

    app::Unwritten& model_;
    std::vector<ServedFile> files_;  ///< those of tensors first, in the placement's order
    std::vector<std::vector<std::uint32_t>> held_;  ///< tensors in those, by offset
    std::vector<publish::Asset> assets_;            ///< the others
    outputs::Framer framer_;
    outputs::OutputTensors tensors_;  ///< for it
    std::mutex mutex_;                ///< of all below
    std::list<std::pair<std::size_t, std::shared_ptr<const outputs::Frame>>> frames_;
    std::map<std::uint32_t, std::uint32_t> sums_;  ///< CRC-32 by tensor, where frames state them
};

}  // namespace shardweld::mount
