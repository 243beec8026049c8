#include "shardweld/formats/containers/torch_records.hpp"

#include <algorithm>

namespace shardweld::formats {

// numbered_.size() for a key that is no such number: "x", "007", one that is too large.
std::size_t TorchRecords::number_of(std::string_view key) const {
    constexpr std::size_t kMostDigits = 9;
    const bool is_short = !key.empty() && key.size() <= kMostDigits;
    if (!is_short || (key.front() == '0' && key.size() > 1)) {
        return numbered_.size();
    }
    std::size_t number = 0;
    for (const char digit : key) {
        if (digit < '0' || digit > '9') {
            return numbered_.size();
        }
        number = number * 10 + static_cast<std::size_t>(digit - '0');
    }
    return std::min(number, numbered_.size());
}

void TorchRecords::add(std::string_view key, const Record& record) {
    if (const std::size_t number = number_of(key); number < numbered_.size()) {
        numbered_[number] = record;
    } else {
        others_.emplace(key, record);
    }
}

const TorchRecords::Record* TorchRecords::find(std::string_view key) const {
    if (const std::size_t number = number_of(key); number < numbered_.size()) {
        return numbered_[number].offset == kAbsent ? nullptr : &numbered_[number];
    }
    const auto found = others_.find(key);
    return found == others_.end() ? nullptr : &found->second;
}

Bytes TorchRecords::bytes() const {
    Bytes sum = 0;
    for (const Record& record : numbered_) {
        sum = checked_add_bytes(sum, record.size, "the size of all storages");
    }
    for (const auto& [key, record] : others_) {
        sum = checked_add_bytes(sum, record.size, "the size of all storages");
    }
    return sum;
}

}  // namespace shardweld::formats
