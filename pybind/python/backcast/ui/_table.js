// A table of Quasar whose cells stay in place while their values change. NiceGUI makes a new
// component of a slot's template at every update, and the browser then loses the focus and clicks.

// Numbers are sent as such so that they can be sorted.
const FORMATS = {
  rate: new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 }),
  count: new Intl.NumberFormat("en", { maximumFractionDigits: 2 }),
};

export default {
  methods: { shown: (value, kind) => value === null ? "-" : FORMATS[kind]?.format(value) ?? value },
  template: `
    <q-table>
      <template v-slot:body-cell="cell">
        <q-td :props="cell">
          <a v-if="cell.col.kind === 'ring' && cell.value"
            :href="'/ring/' + encodeURIComponent(cell.value)">{{ cell.value }}</a>
          <span v-else-if="cell.col.kind === 'fill'" class="fill">
            <q-linear-progress rounded size="8px" :value="cell.value"
              :aria-label="'fill of ' + cell.row.name"/>
            {{ Math.round(100 * cell.value) }} %
          </span>
          <template v-else>{{ shown(cell.value, cell.col.kind) }}</template>
        </q-td>
      </template>
    </q-table>
  `,
};
