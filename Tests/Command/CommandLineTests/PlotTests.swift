import Testing

@testable import bench

struct PlotTests {
  private static func chart(_ points: [(Double, Double)]) -> Chart {
    Chart(
      title: "a < b & c", across: "\"x\"", up: "y", lines: [PlotLine(name: "<l>", points: points)])
  }

  @Test func `texts in a chart are escaped`() {
    let svg = Plot.svg([Self.chart([(1, 10), (2, 20)])])
    #expect(svg.contains("a &lt; b &amp; c"))
    #expect(svg.contains("&quot;x&quot;"))
    #expect(svg.contains("&lt;l&gt;"))
    #expect(!svg.contains("<l>"))
  }

  @Test func `an axis reaches from one round number to another`() throws {
    let scale = try #require(LogScale([1.5, 700], from: 100, to: 400))
    #expect(scale.ticks == [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000])
    #expect([1, 10, 1_000].map { scale.place($0).rounded() } == [100, 200, 400])
  }

  @Test func `an axis with one value has that value at its beginning`() throws {
    let scale = try #require(LogScale([2], from: 100, to: 400))
    #expect(scale.ticks == [2, 5])
    #expect(scale.place(2) == 100)
  }

  @Test func `a chart without a value is drawn without lines`() {
    let svg = Plot.svg([Self.chart([(1, .nan)])])
    #expect(svg.contains("a &lt; b"))
    #expect(!svg.contains("polyline"))
  }
}
