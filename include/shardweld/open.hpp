// A checkpoint as the model that a merge would write, tensor by tensor, without merging.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "shardweld/events.hpp"
#include "shardweld/merge.hpp"

namespace shardweld {

/// One tensor, as merge would write it.
struct TensorInfo {
    std::string name;   ///< HuggingFace's
    std::string dtype;  ///< as safetensors spells it, "BF16"
    std::vector<std::int64_t> shape;
    std::uint64_t bytes = 0;
};

/// Indices [begin, end) of one dimension.
struct IndexRange {
    std::int64_t begin = 0;
    std::int64_t end = 0;
};

/// An open model. Opening reads metadata; read() reads the stored bytes that it needs. Reading is
/// safe from several threads at a time, and in a process that was forked after the opening. A file
/// that changes while the model is open ends the read that meets it with Error(io).
class OpenModel {
  public:
    /// Opens what merge() would write as its first output, whose directory is not used. Adapters
    /// that merge would write beside the model are not among its tensors. Throws as merge();
    /// Error(unsupported) where the output would be quantised: only a merge makes codes.
    explicit OpenModel(const Request& request, Events& events);
    ~OpenModel();
    OpenModel(OpenModel&& other) noexcept;
    OpenModel& operator=(OpenModel&& other) noexcept;
    OpenModel(const OpenModel&) = delete;
    OpenModel& operator=(const OpenModel&) = delete;

    /// In the order of merge's files.
    [[nodiscard]] const std::vector<TensorInfo>& tensors() const;

    /// The report of a merge that stopped before its first tensor byte (docs/using/report.md):
    /// input, provenance, ledger, warnings.
    [[nodiscard]] std::string report_json() const;
    /// config.json, as merge would write it.
    [[nodiscard]] std::string config_json() const;

    /// Puts tensor `at`, or the box of it that `box` gives (one range for each dimension; empty:
    /// all of it), into `out`, row-major and as merge would write it. Error(usage) for a box
    /// outside the tensor or an `out` of another size; Error(corrupt) where a record that was read
    /// whole by now does not have its checksum.
    void read(std::size_t at, std::span<const IndexRange> box, std::span<std::byte> out) const;

  private:
    class State;
    std::unique_ptr<State> state_;
};

}  // namespace shardweld
