// Values to bytes and back, for sharing metadata between ranks of one run.
// Not a file format: both sides are the same program on the same kind of machine.
#pragma once

#include <cstring>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "shardweld/error.hpp"

#include "index.hpp"
#include "optional_box.hpp"
#include "path.hpp"
#include "shared_list.hpp"
#include "shared_string.hpp"
#include "shared_text.hpp"

namespace shardweld {

/// A struct that says which of its members are shared, in their order, because they are not all,
/// or many:
///     static constexpr auto fields = [](auto& self) { return std::tie(self.name, self.bytes); };
template <typename T>
concept HasFields = requires(T& value) {
    T::fields(value);
};

/// Vectors, and what is like them.
template <typename T>
concept IsList = requires(T& list, typename T::value_type value) {
    list.push_back(value);
    list.size();
};

namespace codec {

/// What takes a variable number of bytes: most numbers are small, and there are millions.
template <typename T>
concept IsNumber = std::is_integral_v<T> && sizeof(T) > 1;

/// Its bytes are not its value.
template <typename T>
concept PointsElsewhere = std::is_pointer_v<T> || requires(const T& value) {
    value.data();
};

/// Structs whose members are all shared.
template <typename T>
concept IsWhole = std::is_aggregate_v<T> && !std::is_trivially_copyable_v<T> && !IsList<T>;

/// Becomes a member of any type.
struct AnyMember {
    template <typename T>
    operator T() const;  // NOLINT(google-explicit-constructor): as members are initialised
};

/// How many members an aggregate has: as many as it can be given.
template <typename T, typename... Given>
constexpr std::size_t n_members() {
    if constexpr (requires { T{Given()..., AnyMember()}; }) {
        return n_members<T, Given..., AnyMember>();
    } else {
        return sizeof...(Given);
    }
}

/// References to what is shared of a struct.
template <typename T>
auto fields_of(T& value) {
    constexpr std::size_t kMembers = HasFields<T> ? 0 : n_members<std::remove_const_t<T>>();
    if constexpr (HasFields<T>) {
        return T::fields(value);
    } else if constexpr (kMembers == 1) {
        auto& [a] = value;
        return std::tie(a);
    } else if constexpr (kMembers == 2) {
        auto& [a, b] = value;
        return std::tie(a, b);
    } else if constexpr (kMembers == 3) {
        auto& [a, b, c] = value;
        return std::tie(a, b, c);
    } else if constexpr (kMembers == 4) {
        auto& [a, b, c, d] = value;
        return std::tie(a, b, c, d);
    } else if constexpr (kMembers == 5) {
        auto& [a, b, c, d, e] = value;
        return std::tie(a, b, c, d, e);
    } else if constexpr (kMembers == 6) {
        auto& [a, b, c, d, e, f] = value;
        return std::tie(a, b, c, d, e, f);
    } else {
        auto& [a, b, c, d, e, f, g] = value;  // of more members a struct says its fields
        return std::tie(a, b, c, d, e, f, g);
    }
}

}  // namespace codec

/// Appends values to a byte buffer: numbers, texts, paths, pairs, optionals, lists and maps of
/// such, structs of such, and whatever is trivially copyable.
class ByteWriter {
  public:
    template <typename T>
    void put(const T& value) {
        if constexpr (HasFields<const T> || codec::IsWhole<T>) {
            std::apply([&](const auto&... fields) { (put(fields), ...); }, codec::fields_of(value));
        } else if constexpr (IsList<T>) {
            put_each(value);
        } else if constexpr (codec::IsNumber<T>) {
            put_number(value);
        } else {
            static_assert(std::is_trivially_copyable_v<T> && !codec::PointsElsewhere<T>,
                          "a struct that says no fields");
            put_bytes(std::as_bytes(std::span(&value, 1)));
        }
    }
    void put(const std::string& text) {
        put<std::uint64_t>(text.size());
        put_bytes(std::as_bytes(std::span(text)));
    }
    void put(SharedText text) { put(text.text()); }
    void put(const SharedString& text) { put(text.text()); }
    void put(const fs::path& path) { put(path.native()); }
    template <typename A, typename B>
    void put(const std::pair<A, B>& pair) {
        put(pair.first);
        put(pair.second);
    }
    template <typename T>
    void put(const std::optional<T>& value) {
        put(value.has_value());
        if (value) {
            put(*value);
        }
    }
    template <typename T>
    void put(const OptionalBox<T>& value) {
        put(value.has_value());
        if (value) {
            put(*value);
        }
    }
    template <typename K, typename V>
    void put(const std::map<K, V>& values) {
        put_each(values);
    }
    [[nodiscard]] std::vector<std::byte> take() { return std::move(bytes_); }

  private:
    void put_bytes(ByteView bytes) { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }
    template <typename List>
    void put_each(const List& values) {
        put<std::uint64_t>(values.size());
        for (const auto& value : values) {
            put(value);
        }
    }
    // Little-endian groups of seven bits, the eighth says that more follow. Signed ones by zigzag
    // (-1 becomes 1, 1 becomes 2), so that small negative numbers stay short.
    template <typename T>
    void put_number(T number) {
        auto bits = static_cast<std::uint64_t>(number);
        if constexpr (std::is_signed_v<T>) {
            bits = (bits << 1U) ^ (number < 0 ? ~std::uint64_t{0} : 0);
        }
        for (; bits >= 0x80U; bits >>= 7U) {
            bytes_.push_back(static_cast<std::byte>((bits & 0x7FU) | 0x80U));
        }
        bytes_.push_back(static_cast<std::byte>(bits));
    }

    std::vector<std::byte> bytes_;
};

/// Reads back what ByteWriter wrote, in the same order. Throws Error(internal) past the end.
class ByteReader {
  public:
    explicit ByteReader(ByteView bytes) : bytes_(bytes) {}

    template <typename T>
    T get() {
        T value{};
        read(value);
        return value;
    }
    [[nodiscard]] bool at_end() const { return position_ == bytes_.size(); }

  private:
    template <typename T>
    void read(T& value) {
        if constexpr (HasFields<T> || codec::IsWhole<T>) {
            std::apply([&](auto&... fields) { (read(fields), ...); }, codec::fields_of(value));
        } else if constexpr (IsList<T>) {
            auto n = get<std::uint64_t>();
            if constexpr (requires { value.reserve(n); }) {
                require(n);  // each takes a byte at least
                value.reserve(n);
            }
            for (; n > 0; --n) {
                value.push_back(get<typename T::value_type>());
            }
        } else if constexpr (codec::IsNumber<T>) {
            value = read_number<T>();
        } else {
            static_assert(std::is_trivially_copyable_v<T>, "a struct that says no fields");
            std::memcpy(&value, next(sizeof(T)).data(), sizeof(T));
        }
    }
    std::string_view next_text() {
        const auto part = next(get<std::uint64_t>());
        return {reinterpret_cast<const char*>(part.data()), part.size()};
    }
    void read(std::string& text) { text = next_text(); }
    void read(SharedText& text) { text = next_text(); }
    void read(SharedString& text) { text = shared_among(recent_, next_text()); }
    void read(fs::path& path) { path = get<std::string>(); }
    template <typename A, typename B>
    void read(std::pair<A, B>& pair) {
        read(pair.first);
        read(pair.second);
    }
    template <typename T>
    void read(std::optional<T>& value) {
        value = get<bool>() ? std::optional<T>(get<T>()) : std::nullopt;
    }
    template <typename T>
    void read(OptionalBox<T>& value) {
        value = get<bool>() ? OptionalBox<T>(get<T>()) : OptionalBox<T>();
    }
    template <typename K, typename V>
    void read(std::map<K, V>& values) {
        for (auto n = get<std::uint64_t>(); n > 0; --n) {
            auto key = get<K>();
            values[std::move(key)] = get<V>();
        }
    }
    template <typename T>
    T read_number() {
        std::uint64_t bits = 0;
        for (unsigned shift = 0; shift < 64; shift += 7) {
            const auto byte = std::to_integer<std::uint64_t>(next(1).front());
            bits |= (byte & 0x7FU) << shift;
            if ((byte & 0x80U) != 0) {
                continue;
            }
            if constexpr (std::is_signed_v<T>) {
                bits = (bits >> 1U) ^ ((bits & 1U) != 0 ? ~std::uint64_t{0} : 0);
            }
            return static_cast<T>(bits);
        }
        throw Error(ErrorCode::internal, "metadata shared between ranks holds an endless number");
    }

    void require(std::size_t size) const {
        if (size > bytes_.size() - position_) {
            throw Error(ErrorCode::internal, "metadata shared between ranks is cut short");
        }
    }
    ByteView next(std::size_t size) {
        require(size);
        position_ += size;
        return bytes_.subspan(position_ - size, size);
    }

    ByteView bytes_;
    std::size_t position_ = 0;
    RecentStrings recent_;
};

}  // namespace shardweld
