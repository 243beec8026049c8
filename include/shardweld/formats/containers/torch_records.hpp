// Where the storages of a torch file lie, by their keys.
// Knows that keys are numbers as a rule; nothing of containers.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "shardweld/core/index.hpp"

namespace shardweld::formats {

class TorchRecords {
  public:
    struct Record {
        Bytes offset = 0;  ///< absolute
        Bytes size = 0;
        std::uint32_t crc32 = 0;  ///< 0 if none is recorded
    };

    /// Expects up to `count` records; torch numbers them from 0.
    void reserve(std::size_t count) { numbered_.resize(count, {kAbsent, 0, 0}); }
    void add(std::string_view key, const Record& record);
    /// nullptr when there is none.
    [[nodiscard]] const Record* find(std::string_view key) const;
    /// Of all records together. Error(corrupt) on overflow.
    [[nodiscard]] Bytes bytes() const;

  private:
    static constexpr Bytes kAbsent = ~Bytes{0};
    [[nodiscard]] std::size_t number_of(std::string_view key) const;

    std::vector<Record> numbered_;  // by the number that is the key
    std::map<std::string, Record, std::less<>> others_;
};

}  // namespace shardweld::formats
