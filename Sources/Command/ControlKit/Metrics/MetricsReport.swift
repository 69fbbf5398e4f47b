import BreakerDocuments
import SharedBreaker

/// Everything that `metrics` prints, in either format.
struct MetricsReport: Sendable {
  var store: StoreFigures
  var breakers: [BreakerSnapshot] = []

  /// Labels that distinguish this store's samples from those of other stores.
  var labels: [Sample.Label] = []

  private static let ofStore = StoreMetrics.families + FleetMetrics.families

  /// Prints the report in pieces, because the whole of a large store's would fill the memory.
  func write(asJSON isJSON: Bool, to output: @escaping (String) -> Void) {
    var pieces = Pieces(output: output)
    if isJSON {
      pieces += #"{"metrics":["#
      var isFirst = true
      for family in Self.ofStore {
        writeJSON(family, of: [store], &isFirst, to: &pieces)
      }
      for family in BreakerMetrics.families {
        writeJSON(family, of: breakers, &isFirst, to: &pieces)
      }
      pieces += "]}\n"
    } else {
      for family in Self.ofStore { writeText(family, of: [store], to: &pieces) }
      for family in BreakerMetrics.families { writeText(family, of: breakers, to: &pieces) }
    }
    pieces.flush()
  }

  /// The text format of Prometheus; it leaves out a family without samples.
  private func writeText<Subject>(
    _ family: MetricFamily<Subject>, of subjects: [Subject], to pieces: inout Pieces
  ) {
    var isFirst = true
    for subject in subjects {
      for sample in family.samples(subject) {
        if isFirst {
          pieces += "# HELP \(family.name) \(family.help)\n"
          pieces += "# TYPE \(family.name) \(family.kind.rawValue)\n"
          isFirst = false
        }
        pieces += family.name + (sample.part.map { "_\($0.rawValue)" } ?? "")
        let all = labels + sample.labels
        for (index, label) in all.enumerated() {
          pieces += "\(index == 0 ? "{" : ",")\(label.name)=\"\(Self.escaped(label.value))\""
        }
        pieces += "\(all.isEmpty ? "" : "}") \(sample.value)\n"
      }
    }
  }

  private static let backslash = UInt8(ascii: "\\")
  private static let quote = UInt8(ascii: "\"")

  /// A label's value: the visible form of the text, which is different for different texts.
  ///
  /// Prometheus refuses two series with the same labels, so a `\u{` that is part of the text itself
  /// becomes `\u{5c}u{`. This works on bytes, because a quote and a combining mark after it would be
  /// one character.
  private static func escaped(_ value: String) -> String {
    // Nearly every value needs no change.
    if value.utf8.allSatisfy({ $0 >= 0x20 && $0 < 0x7F && $0 != backslash && $0 != quote }) {
      return value
    }
    var distinct: [UInt8] = []
    var rest = value.utf8[...]
    while let byte = rest.popFirst() {
      distinct.append(byte)
      if byte == backslash, rest.starts(with: "u{".utf8) { distinct += "u{5c}".utf8 }
    }
    let visible = OutsideText.visible(String(decoding: distinct, as: UTF8.self))
    let escaped = visible.utf8.flatMap { $0 == backslash || $0 == quote ? [backslash, $0] : [$0] }
    return String(decoding: escaped, as: UTF8.self)
  }

  private func writeJSON<Subject>(
    _ family: MetricFamily<Subject>, of subjects: [Subject], _ isFirst: inout Bool,
    to pieces: inout Pieces
  ) {
    let head: [JSONValue.Member] = [
      .init("name", .string(family.name)), .init("type", .string(family.kind.rawValue)),
      .init("help", .string(family.help)),
    ]
    pieces += (isFirst ? "" : ",") + JSONValue.object(head).text.dropLast() + #","samples":["#
    isFirst = false
    var isFirstSample = true
    for subject in subjects {
      for sample in family.samples(subject) {
        let all = (labels + sample.labels).map { JSONValue.Member($0.name, .string($0.value)) }
        let part = sample.part.map { [JSONValue.Member("part", .string($0.rawValue))] } ?? []
        let value = JSONValue.object(
          part + [.init("labels", .object(all)), .init("value", .rendered(sample.value))])
        pieces += (isFirstSample ? "" : ",") + value.text
        isFirstSample = false
      }
    }
    pieces += "]}"
  }
}

/// Text that is printed in large pieces.
private struct Pieces {
  let output: (String) -> Void
  private var bytes: [UInt8] = []

  init(output: @escaping (String) -> Void) { self.output = output }

  static func += (pieces: inout Pieces, text: some StringProtocol) {
    pieces.bytes += text.utf8
    if pieces.bytes.count >= 65_536 { pieces.flush() }
  }

  mutating func flush() {
    if !bytes.isEmpty { output(String(decoding: bytes, as: UTF8.self)) }
    bytes.removeAll(keepingCapacity: true)
  }
}

/// All samples of one metric, which Prometheus requires to be together.
struct MetricFamily<Subject>: Sendable {
  enum Kind: String, Sendable {
    case gauge, counter, histogram
  }

  var name: String
  var kind: Kind

  /// The meaning of the metric, in one line.
  var help: String

  /// Returns the samples of one subject.
  var samples: @Sendable (Subject) -> [Sample]

  init(
    _ kind: Kind, _ name: String, _ help: String,
    samples: @escaping @Sendable (Subject) -> [Sample]
  ) {
    self.kind = kind
    self.name = "shared_breaker_\(name)"
    self.help = help
    self.samples = samples
  }
}

/// One number, with the labels that distinguish it within its family.
struct Sample: Sendable, Hashable {
  struct Label: Sendable, Hashable {
    var name: String
    var value: String
  }

  /// The part of a histogram that a sample is: how many were at most so much, their sum, or how
  /// many there are.
  enum Part: String, Sendable {
    case bucket, sum, count
  }

  var labels: [Label]

  /// Which part of a histogram it is; nil in every other family.
  private(set) var part: Part?

  /// The number, in digits.
  var value: String

  init(_ value: String, _ labels: KeyValuePairs<String, String> = [:]) {
    self.labels = labels.map { Label(name: $0.key, value: $0.value) }
    self.value = value
  }

  init(_ value: Int64, _ labels: KeyValuePairs<String, String> = [:]) {
    self.init(String(value), labels)
  }

  /// This sample as a part of a histogram.
  func part(_ part: Part) -> Sample {
    var sample = self
    sample.part = part
    return sample
  }

  /// This sample as how many were at most so much; nil for all.
  func bucket(atMost bound: Duration?) -> Sample {
    var sample = part(.bucket)
    sample.labels.append(Label(name: "le", value: bound.map { Sample($0).value } ?? "+Inf"))
    return sample
  }

  init(_ isSo: Bool, _ labels: KeyValuePairs<String, String> = [:]) {
    self.init(isSo ? "1" : "0", labels)
  }

  /// Writes a duration in seconds, exact to the nanosecond.
  init(_ duration: Duration, _ labels: KeyValuePairs<String, String> = [:]) {
    let (seconds, attoseconds) = duration.components
    let digits = String(1_000_000_000 + attoseconds / 1_000_000_000).dropFirst()
    let end = digits.lastIndex { $0 != "0" }
    self.init(end.map { "\(seconds).\(digits[...$0])" } ?? String(seconds), labels)
  }
}
