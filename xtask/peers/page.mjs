// Opens pages of runs in a browser, with and without scripts, on a phone and on a desk, in light and in dark, and says what is
// wrong with them. Arguments: the browser, the folder for pictures, the pages.

import { basename } from "node:path";
import { pathToFileURL } from "node:url";
import puppeteer from "puppeteer-core";

const [browserPath, pictures, ...pages] = process.argv.slice(2);
const browser = await puppeteer.launch({ executablePath: browserPath, headless: true, args: ["--no-sandbox", "--force-color-profile=srgb"] });
let wrong = 0;
const complain = (where, what) => {
  wrong += 1;
  console.log(`FAILED ${where}: ${what}`);
};

/** The contrast of every text with the ground behind it; what is too low, once for each kind. */
function lowContrasts() {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgb = (colour) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const light = ([r, g, b]) => {
    const part = (value) => (value / 255 <= 0.04045 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4);
    return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
  };
  const ground = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const rect = at.tagName === "a" && at.closest("svg") ? at.querySelector("rect") : null;
      const colour = rgb(rect ? getComputedStyle(rect).fill : getComputedStyle(at).backgroundColor);
      if (colour[3] === 255) return colour;
    }
    return [255, 255, 255, 255];
  };
  const low = new Set();
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!own || element.tagName === "title" || element.closest(".skip")) continue;
    const style = getComputedStyle(element);
    const colour = rgb(element.closest("svg") ? style.fill : style.color);
    const [a, b] = [light(colour), light(ground(element))].sort((x, y) => y - x);
    const contrast = (a + 0.05) / (b + 0.05);
    if (contrast < 4.5) low.add(`${element.tagName}.${element.className.baseVal ?? element.className} ${contrast.toFixed(2)}`);
  }
  return [...low];
}

/** Headings that skip a level, tables without heads, names that are there twice. */
function structure() {
  const found = [];
  let last = 0;
  for (const heading of document.querySelectorAll("h1,h2,h3,h4,h5,h6")) {
    const level = Number(heading.tagName[1]);
    if (level > last + 1) found.push(`<${heading.tagName.toLowerCase()}> "${heading.textContent}" after <h${last}>`);
    last = level;
  }
  if (document.querySelectorAll("h1").length !== 1) found.push("not one <h1>");
  for (const landmark of ["header", "main", "footer"]) if (!document.querySelector(landmark)) found.push(`no <${landmark}>`);
  for (const table of document.querySelectorAll("table")) {
    if (!table.querySelector("thead th[scope=col]") || !table.querySelector("tbody th[scope=row]")) found.push("a table without heads");
  }
  const ids = [...document.querySelectorAll("[id]")].map((element) => element.id);
  ids.filter((id, at) => ids.indexOf(id) !== at).forEach((id) => found.push(`two of #${id}`));
  for (const link of document.querySelectorAll("a[href^='#']")) {
    const target = link.getAttribute("href").slice(1);
    if (!ids.includes(target)) found.push(`a link to #${target}, which is not there`);
  }
  return found;
}

for (const file of pages) {
  const name = basename(file, ".html");
  const address = pathToFileURL(file).href;
  for (const scripts of [true, false]) {
    for (const width of [390, 1280]) {
      for (const scheme of ["light", "dark"]) {
        const where = `${name} at ${width}px, ${scheme}, ${scripts ? "with" : "without"} scripts`;
        const page = await browser.newPage();
        await page.setJavaScriptEnabled(scripts);
        await page.setViewport({ width, height: 900, isMobile: width < 600, hasTouch: width < 600 });
        await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
        page.on("request", (request) => {
          if (request.url() !== address && request.url() !== "data:,") complain(where, `asks for ${request.url()}`);
        });
        page.on("console", (message) => complain(where, `console: ${message.text()}`));
        page.on("pageerror", (error) => complain(where, `error: ${error}`));
        await page.goto(address);
        const session = await page.createCDPSession();
        const { cssLayoutViewport, cssContentSize } = await session.send("Page.getLayoutMetrics");
        if (cssContentSize.width > cssLayoutViewport.clientWidth || cssContentSize.width > width) {
          complain(where, `is ${cssContentSize.width} wide`);
        }
        // A step that is shut opens without a script.
        const shut = await page.$("details:not([open]) > summary");
        if (shut) {
          const before = (await page.$$("details[open]")).length;
          await shut.click();
          const after = (await page.$$("details[open]")).length;
          if (after !== before + 1) complain(where, "a step does not open");
          await shut.click();
        }
        if (scripts) {
          for (const low of await page.evaluate(lowContrasts)) complain(where, `contrast: ${low}`);
          for (const odd of await page.evaluate(structure)) complain(where, odd);
        } else {
          await page.screenshot({ path: `${pictures}/${name}-${width}-${scheme}.png`, fullPage: true });
        }
        await page.close();
      }
    }
  }
  // On paper everything is there, also what is shut on the screen.
  const page = await browser.newPage();
  await page.setViewport({ width: 1280, height: 900 });
  await page.goto(address);
  await page.emulateMediaType("print");
  const hidden = await page.evaluate(() => [...document.querySelectorAll("details:not([open]) .inside")].filter((inside) => inside.offsetHeight === 0).length);
  if (hidden > 0) complain(`${name} on paper`, `${hidden} steps are shut`);
  await page.pdf({ path: `${pictures}/${name}.pdf`, format: "A4" });
  await page.close();
  console.log(`looked at ${name}`);
}
await browser.close();
process.exit(wrong === 0 ? 0 : 1);
