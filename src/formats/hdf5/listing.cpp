#include "listing.hpp"

#include "core/text.hpp"
#include "io/cursor.hpp"
#include "shardweld/error.hpp"

namespace shardweld::formats::hdf5 {

namespace {

using shardweld::hdf5::ListingEntry;

constexpr std::uint64_t kMostAxes = 32;
constexpr const char* kWhat = "the list of datasets";

[[noreturn]] void refuse() {
    throw Error(ErrorCode::corrupt, "the HDF5 library's list of datasets is damaged");
}

std::string text_in(io::Cursor& in) {
    return std::string(in.text(in.get<std::uint64_t>(kWhat), kWhat));
}

bool flag_in(io::Cursor& in) {
    const auto value = in.get<std::uint8_t>(kWhat);
    if (value > 1) {
        refuse();
    }
    return value == 1;
}

std::vector<Index> numbers_in(io::Cursor& in) {
    const auto count = in.get<std::uint64_t>(kWhat);
    if (count > kMostAxes) {
        refuse();
    }
    std::vector<Index> numbers;
    for (std::uint64_t i = 0; i < count; ++i) {
        numbers.push_back(in.get<Index>(kWhat));
    }
    return numbers;
}

DatasetLayout layout_in(io::Cursor& in) {
    const auto value = in.get<std::uint8_t>(kWhat);
    if (value > static_cast<std::uint8_t>(DatasetLayout::unknown)) {
        refuse();
    }
    return static_cast<DatasetLayout>(value);
}

Dataset dataset_in(io::Cursor& in) {
    Dataset dataset;
    dataset.name = text_in(in);
    dataset.storage = text_in(in);
    dataset.layout = layout_in(in);
    dataset.n_filters = in.get<std::uint64_t>(kWhat);
    const auto offset = in.get<Bytes>(kWhat);
    dataset.offset = offset == ~Bytes{0} ? std::nullopt : std::optional(offset);
    dataset.shape = numbers_in(in);
    dataset.is_null = flag_in(in);
    dataset.dtype = text_in(in);
    const bool has_place = flag_in(in);
    PiecePlace place;
    place.global_shape = numbers_in(in);
    place.offsets = numbers_in(in);
    if (has_place) {
        dataset.place = std::move(place);
    }
    dataset.fault = text_in(in);
    return dataset;
}

[[noreturn]] void refuse_object(ListingEntry entry, const std::string& name) {
    const std::string what = entry == ListingEntry::soft_link       ? "a soft link"
                             : entry == ListingEntry::external_link ? "a link to another file"
                             : entry == ListingEntry::group         ? "a group"
                                                                    : "a named datatype";
    throw Error(ErrorCode::unsupported, "\"" + printable(name) + "\" is " + what,
                "put datasets only, one for each tensor, at the root of the file");
}

}  // namespace

std::vector<Dataset> parse_listing(std::span<const std::byte> bytes) {
    io::Cursor in(bytes);
    if (in.get<std::uint32_t>(kWhat) != shardweld::hdf5::kListingBegin) {
        refuse();
    }
    std::vector<Dataset> datasets;
    while (true) {
        const auto entry = in.get<ListingEntry>(kWhat);
        switch (entry) {
            case ListingEntry::end:
                if (in.get<std::uint32_t>(kWhat) != shardweld::hdf5::kListingEnd ||
                    in.remaining() != 0) {
                    refuse();
                }
                return datasets;
            case ListingEntry::failure:
                throw Error(ErrorCode::corrupt, "the HDF5 library cannot read the file: " +
                                                    printable(text_in(in), 500));
            case ListingEntry::dataset:
                datasets.push_back(dataset_in(in));
                break;
            case ListingEntry::soft_link:
            case ListingEntry::external_link:
            case ListingEntry::group:
            case ListingEntry::other:
                refuse_object(entry, text_in(in));
            default:
                refuse();
        }
    }
}

}  // namespace shardweld::formats::hdf5
