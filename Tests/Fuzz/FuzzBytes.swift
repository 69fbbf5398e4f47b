/// The bytes of one run, read as small decisions; zeros when none are left.
struct FuzzBytes {
  private var rest: ArraySlice<UInt8>

  init(_ bytes: [UInt8]) { rest = bytes[...] }

  var isEmpty: Bool { rest.isEmpty }

  mutating func byte() -> UInt8 { rest.popFirst() ?? 0 }

  /// Returns a number below a bound.
  mutating func number(below bound: Int) -> Int {
    let wide = bound > 256 ? Int(byte()) << 8 | Int(byte()) : Int(byte())
    return wide % bound
  }

  mutating func bytes(_ count: Int) -> [UInt8] {
    let taken = Array(rest.prefix(count))
    rest = rest.dropFirst(count)
    return taken
  }

  /// Returns one of the numbers that are often forgotten, or any other number.
  mutating func word() -> UInt64 {
    switch number(below: 8) {
    case 0: 0
    case 1: .max
    case 2: UInt64(Int64.max)
    case 3: UInt64(bitPattern: .min)
    case 4: UInt64(byte())
    case 5: 1 << UInt64(number(below: 64))
    default: bytes(8).reduce(0) { $0 << 8 | UInt64($1) }
    }
  }
}
